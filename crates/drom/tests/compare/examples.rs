//! What a stranger tries first: the scripts of the examples without anything set up for them.

use std::{path::Path, process::Command};

#[test]
fn the_guest_book_finds_a_folder_of_its_own() {
    let scratch = tempfile::tempdir().expect("scratch");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ladder/cgi-bin");
    let mut perl = Command::new("perl");
    perl.arg(script.join("guestbook.pl")).env_remove("LADDER_DATA").env("TMPDIR", scratch.path());
    let out = perl.args(["name=Ann", "message=<hi>"]).output().expect("perl runs");
    let (page, errors) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(page.contains("<li><b>Ann</b>: &lt;hi&gt;</li>"), "{page}{errors}");
    assert_eq!(scratch.path().read_dir().expect("a folder").count(), 1);
}
