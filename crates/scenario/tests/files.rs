//! Scenarios and lists from real files: what lies beside them, and what cannot be read.

use std::{fs, path::Path};

use drom_scenario::{Scenario, UrlOrder};

fn told(path: &Path) -> String {
    Scenario::read(path, &[]).expect_err("it cannot be used").to_string()
}

#[test]
fn files_are_looked_for_beside_the_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("data")).expect("a folder in it");
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    };
    write("data/ids.jsonl", b"{\"id\": 7}\n");
    write("body.bin", b"\x00\xff");
    let text = "base='http://h'\n[feeder.f]\nfile='data/ids.jsonl'\n[[step]]\nurl='/{{f.id}}'\n\
                body_file='body.bin'\n";
    let path = write("shop.toml", text.as_bytes());
    let scenario = Scenario::read(&path, &[]).expect("good");
    assert_eq!((&*scenario.name, scenario.feeders()[0].rows()), ("shop", 1));

    let missing = write("a.toml", b"[feeder.f]\nfile='none.csv'\n");
    let said = told(&missing);
    assert!(said.contains("a.toml:2: `file`: cannot read") && said.contains("none.csv"), "{said}");
    let bytes = write("b.toml", b"name = 'a'\nx = '\xff'\n");
    assert!(told(&bytes).ends_with("b.toml:2: this is no UTF-8 text"), "{}", told(&bytes));
    let gone = folder.path().join("gone.toml");
    assert!(told(&gone).starts_with("cannot read "), "{}", told(&gone));
}

#[test]
fn a_list_is_read_from_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("urls.txt");
    fs::write(&path, "http://h/a\n\n").expect("a file");
    let read = || Scenario::read_urls(&path, None, UrlOrder::Random);
    let said = read().expect_err("an empty line").to_string();
    assert!(said.contains("urls.txt:2: an empty line"), "{said}");
    fs::write(&path, "http://h/a\n").expect("a file");
    assert_eq!(read().expect("good").origins()[0].host, "h");
    fs::remove_file(&path).expect("it was there");
    assert!(read().is_err());
}
