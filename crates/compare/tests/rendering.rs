//! A simulated experiment through the store and every output: snapshots, the same bytes again, and
//! a page that needs no network.

mod simulated;

use std::{path::Path, sync::atomic::AtomicBool};

use drom_compare::analyse;
use drom_report::{Style, csv, html, json, markdown, text};
use drom_store::{Run, Writer};
use simulated::{Fault, Kept, SimWorld, plan};

/// A stored run: `b` is 1.5 times as fast, and one slice in ten of it has wrong bodies when asked
/// for.
fn stored(root: &Path, fault: Fault) -> Run {
    let plan = plan("title = \"A <race>\"\nblocks = { min = 6, max = 6 }", "rounds = 2");
    let mut world = SimWorld::new(4, fault);
    world.speed.insert("b".to_owned(), 15_000.0);
    let mut kept = Kept { keep_latencies: true, ..Kept::default() };
    let stop = AtomicBool::new(false);
    let end = drom_compare::run(&plan, 4, "test", &mut world, &mut kept, &stop).expect("it runs");
    let mut manifest = kept.manifest.expect("it began");
    manifest.started_unix_s = 1_772_874_301;
    let mut writer = Writer::create_in(root, &manifest).expect("a new folder");
    for (block, latencies) in kept.blocks.iter().zip(&kept.latencies) {
        writer.block(block, latencies).expect("written");
    }
    Run::open(&writer.end(&end).expect("ended")).expect("opened")
}

#[test]
fn the_outputs_are_those_of_the_snapshots() {
    let root = tempfile::tempdir().expect("scratch");
    let run = stored(root.path(), Fault::None);
    let findings = analyse(&run);
    same_as("race.txt", &text(&run, &findings, Style::PLAIN));
    same_as("race.md", &markdown(&run, &findings));
    same_as("race.csv", &csv(&run));
    let faulty = stored(root.path(), Fault::WrongBody);
    same_as("faulty.txt", &text(&faulty, &analyse(&faulty), Style::PLAIN));
}

#[test]
fn a_run_renders_to_the_same_bytes_again() {
    let root = tempfile::tempdir().expect("scratch");
    let run = stored(root.path(), Fault::None);
    let again = Run::find(root.path(), "sim-2026").expect("by the beginning of its name");
    let both = |run: &Run| (html(run, &analyse(run)), json(run, &analyse(run)), csv(run));
    assert!(both(&run) == both(&again));
}

#[test]
fn the_page_needs_no_network_and_escapes_what_it_quotes() {
    let root = tempfile::tempdir().expect("scratch");
    let run = stored(root.path(), Fault::WrongBody);
    let page = html(&run, &analyse(&run));
    for word in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("A &lt;race&gt;") && !page.contains("<race>"));
    assert!(page.len() < 500_000, "{} bytes", page.len());
    for slice in run.blocks.iter().flat_map(|block| &block.slices) {
        assert!(page.contains(&format!("id=\"{}\"", slice.id)), "{} cannot be reached", slice.id);
    }
}

#[test]
fn a_run_without_a_finished_block_has_passed_nothing() {
    let root = tempfile::tempdir().expect("scratch");
    let mut run = stored(root.path(), Fault::None);
    run.blocks.clear();
    let page = html(&run, &analyse(&run));
    assert!(page.contains("not decided in 1 of 1 group"), "the A/A pair");
    assert_eq!(page.matches("<span>passed</span>").count(), 1, "P1 alone was looked at");
    assert!(text(&run, &analyse(&run), Style::PLAIN).contains("A/A: not decided (0 blocks)"));
}

#[test]
fn a_warm_up_that_could_not_be_judged_has_not_passed() {
    let root = tempfile::tempdir().expect("scratch");
    let mut run = stored(root.path(), Fault::None);
    let not_evaluated = |run: &Run| {
        let findings = analyse(run);
        let all: serde_json::Value = serde_json::from_str(&json(run, &findings)).expect("JSON");
        let codes = all["findings"]["not_evaluated"].as_array().expect("a list").len();
        (codes, text(run, &findings, Style::PLAIN), html(run, &findings))
    };
    let (codes, told, page) = not_evaluated(&run);
    assert!(codes == 0 && !told.contains("Not evaluated") && !page.contains("not evaluated: "));
    for slice in run.blocks.iter_mut().flat_map(|block| &mut block.slices) {
        slice.ok = if slice.variant == "b" { 400 } else { slice.ok };
    }
    let why = "`b` had 10 answers in a fiftieth of a slice in 0 of";
    let (codes, told, page) = not_evaluated(&run);
    assert!(codes == 1 && told.contains(&format!("W2 warm-up too short: {why}")), "{told}");
    assert!(page.contains(&format!("not evaluated: {why}")), "the page");
    run.manifest.load.rounds = 1;
    let (codes, told, _) = not_evaluated(&run);
    assert!(codes == 2 && told.contains("Not evaluated: W1 cold: needs two rounds"), "{told}");
}

#[test]
fn the_head_says_the_connections_that_ran() {
    let root = tempfile::tempdir().expect("scratch");
    let mut run = stored(root.path(), Fault::None);
    let head = |run: &Run| text(run, &analyse(run), Style::PLAIN);
    let mut second = run.manifest.groups[0].clone();
    (run.manifest.groups[0].connections, second.connections) = (1, 4);
    assert!(head(&run).contains("\u{b7} 1 connection, keep-alive"), "{}", head(&run));
    run.manifest.groups.push(second);
    assert!(head(&run).contains("\u{b7} 1, 4 connections, keep-alive"), "{}", head(&run));
}

#[test]
fn an_old_locale_gets_ascii_in_straight_columns() {
    let root = tempfile::tempdir().expect("scratch");
    let run = stored(root.path(), Fault::BusyClient);
    let text = text(&run, &analyse(&run), Style { ascii: true, ..Style::PLAIN });
    assert!(text.is_ascii() && text.contains(">= ") && text.contains("CPU us/req"), "{text}");
    let table = text.lines().skip_while(|line| !line.starts_with("  variant"));
    let at: Vec<_> =
        table.take(3).map(|line| line.find("baseline").or(line.find("verdict"))).collect();
    assert_eq!(at[0], at[2], "{text}");
}

#[test]
fn a_narrow_terminal_gets_two_tables_and_no_line_is_too_long() {
    let root = tempfile::tempdir().expect("scratch");
    for fault in [Fault::None, Fault::WrongBody] {
        let mut run = stored(root.path(), fault);
        run.manifest.title = "A title that says more than a line can hold, ".repeat(3);
        for width in [60, 80, 100, 120] {
            let text = text(&run, &analyse(&run), Style { width: Some(width), ..Style::PLAIN });
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}:\n{text}");
            let tables = text.matches("  variant").count();
            assert!(if width < 100 { tables >= 2 } else { tables == 1 }, "{width}:\n{text}");
        }
    }
}

#[test]
fn dropped_blocks_and_single_workers_read_well_on_the_page() {
    let root = tempfile::tempdir().expect("scratch");
    let mut run = stored(root.path(), Fault::None);
    let block = &run.blocks[2];
    run.dropped.push(drom_store::Dropped {
        block: 2,
        group: block.group.clone(),
        begin_s: block.begin_s,
        end_s: block.end_s,
        variant: "b".to_owned(),
        reason: "its server ended with signal: 9 (SIGKILL); it wrote:\n  <oops>".to_owned(),
    });
    run.blocks.iter_mut().flat_map(|block| &mut block.slices).for_each(|slice| {
        slice.workers = 1;
        if slice.variant == "b" {
            slice.ok = 0;
        }
    });
    let page = html(&run, &analyse(&run));
    assert!(page.contains("&lt;oops&gt;") && page.contains("block 3 dropped"));
    assert!(page.contains(", 1 worker<") && !page.contains("1 workers"));
    assert!(page.contains("no good answer") && !page.contains("- req/s"));
    assert!(page.contains("bar vc") && page.contains("slice vc") && page.contains("key vc"));
}

#[test]
fn json_says_verdict_and_interval() {
    let root = tempfile::tempdir().expect("scratch");
    let run = stored(root.path(), Fault::None);
    let value: serde_json::Value =
        serde_json::from_str(&json(&run, &analyse(&run))).expect("valid JSON");
    assert_eq!(value["schema"], "drom.compare/1");
    let row = &value["findings"]["groups"][0]["rows"][1];
    assert_eq!(row["verdict"]["verdict"], "faster");
    let ratio = |key: &str| row["ratio"][key].as_f64().expect("a number");
    assert!(ratio("low") < 1.5 && 1.5 < ratio("high") && ratio("low") > 1.3, "{row}");
}

/// `SNAP_UPDATE=1` writes them anew.
fn same_as(name: &str, found: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let path = folder.join(name);
    if std::env::var_os("SNAP_UPDATE").is_some() {
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(&path, found).expect("writable");
    }
    let expected = std::fs::read_to_string(&path).expect("a snapshot");
    assert!(expected == found, "{name} differs; SNAP_UPDATE=1 renews it. Now:\n{found}");
}
