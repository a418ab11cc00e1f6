//! Keeps the house: one test a rule, each over every file of the project. A failure lists file,
//! line and what to do.

use std::{path::Path, sync::LazyLock};

use drom_tidy::{House, Ratchet};

static HOUSE: LazyLock<House> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let house = House::read(&root).expect("the project's folder can be read");
    assert!(
        house.file("Cargo.toml").is_some() && house.files.len() > 50,
        "this is not the project"
    );
    house
});

static RATCHET: LazyLock<Ratchet> = LazyLock::new(|| {
    if std::env::var_os("DROM_REWRITE_RATCHET").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ratchet.txt");
        let text = Ratchet::write(&drom_tidy::over_limit(&HOUSE));
        std::fs::write(path, &text).expect("the ratchet can be written");
        return Ratchet::parse(&text).expect("what was written can be read");
    }
    let file = HOUSE.file("crates/tidy/ratchet.txt").expect("the ratchet is there");
    Ratchet::parse(&file.text).expect("the ratchet can be read")
});

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn dependencies_between_crates_point_down() {
    none(&drom_tidy::dependency_arrows(&HOUSE));
}

#[test]
fn functions_fit_a_screen() {
    none(&drom_tidy::long_functions(&HOUSE, &RATCHET));
}

#[test]
fn lines_fit_100_columns() {
    none(&drom_tidy::long_lines(&HOUSE, &RATCHET));
}

#[test]
fn banned_calls_are_absent() {
    none(&drom_tidy::banned_calls(&HOUSE));
}

#[test]
fn nothing_is_unfinished() {
    none(&drom_tidy::unfinished(&HOUSE));
}

#[test]
fn files_say_what_they_are() {
    none(&drom_tidy::file_heads(&HOUSE));
}

#[test]
fn files_are_small() {
    none(&drom_tidy::file_sizes(&HOUSE));
}

#[test]
fn the_changelog_has_its_shape() {
    none(&drom_tidy::changelog(&HOUSE));
}

#[test]
fn every_dependency_has_its_reason() {
    none(&drom_tidy::dependency_list(&HOUSE));
}

#[test]
fn links_between_documents_lead_somewhere() {
    none(&drom_tidy::markdown_links(&HOUSE));
}
