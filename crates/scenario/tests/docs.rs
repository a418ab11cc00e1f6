//! Every scenario in docs/scenario.md and docs/record.md can be read.

use std::{fs, io, path::Path};

use drom_scenario::Scenario;

fn file(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("people.csv") => Ok(b"name,password\nann,secret\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

#[test]
fn every_scenario_in_the_manual_can_be_read() {
    for (page, count) in [("scenario.md", 5), ("record.md", 1)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = fs::read_to_string(path).expect("the manual is there");
        let blocks = text.split("```toml\n").skip(1);
        let blocks: Vec<&str> = blocks.filter_map(|block| block.split("```").next()).collect();
        assert!(blocks.len() >= count, "there are examples in {page}");
        for block in blocks {
            if let Err(error) = Scenario::parse(block, Path::new("a.toml"), &[], &file) {
                panic!("{page}: {error}\n{block}");
            }
        }
    }
}
