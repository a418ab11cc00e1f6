//! Files that Devel::DProf and Devel::NYTProf have written (of `data/shop.pl`), against what their
//! own tools say of them: dprofpp, nytprofcalls and nytprofcsv, word for word in `data`.

use std::{collections::BTreeMap, fs, io::Read, path::PathBuf};

use drom_profile::{Lines, Profile, profile::Kind, read};
use flate2::read::ZlibDecoder;
use proptest::prelude::*;

fn data(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    fs::read(folder.join(name)).expect("a file")
}

fn text(name: &str) -> String {
    String::from_utf8(data(name)).expect("text")
}

fn profile(bytes: &[u8]) -> Profile {
    read(bytes).expect("a profile").0
}

const S: f64 = 1e9;

/// The rows of dprofpp: calls, and seconds of the sub itself and with all that it called.
#[test]
fn a_file_of_dprof_says_what_dprofpp_says() {
    let bytes = data("tmon.out");
    let profile = profile(&bytes);
    let mut rows = 0;
    for row in text("dprofpp.txt").lines() {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [_, own, all, calls, .., name] = words[..] else { panic!("{row}") };
        let shares = profile.shares();
        let share = shares.iter().find(|share| &*share.name == name).expect(name);
        assert_eq!(share.calls, calls.parse().ok(), "{name}");
        let seconds = |word: &str| word.parse::<f64>().unwrap_or(0.0).max(0.0);
        let near = |seen: u64, said: &str| (seen as f64 / S - seconds(said)).abs() < 0.001;
        assert!(near(share.exclusive, own), "{row}: {share:?}");
        // Of a sub that was reached by goto dprofpp leaves out what it called.
        match name {
            "main::fails" => assert!(near(share.inclusive, "0.180"), "{share:?}"),
            _ => assert!(near(share.inclusive, all), "{row}: {share:?}"),
        }
        rows += 1;
    }
    assert_eq!(rows, 6);
    let counted = profile.taken.counted.expect("counted");
    assert_eq!((counted.calls, counted.is_cut), (40, false));
}

/// Every way and its own time, as nytprofcalls folds them; in ticks of 100 ns.
#[test]
fn a_file_of_nytprof_says_what_its_tools_say() {
    let bytes = data("nytprof.out");
    let (profile, program) = read(&bytes).expect("a profile");
    assert_eq!(program.as_deref(), Some("shop.pl"));
    let mut seen = BTreeMap::new();
    for (stack, ns) in profile.stacks().filter(|(stack, _)| stack.len() > 1) {
        let names: Vec<&str> = stack[1..].iter().map(|frame| &*frame.name).collect();
        seen.insert(names.join(";"), ns / 100);
    }
    let said = text("nytprofcalls.txt");
    let said = said.lines().map(|line| line.rsplit_once(' ').expect("a time"));
    let said: BTreeMap<String, u64> =
        said.map(|(way, ticks)| (way.to_owned(), ticks.parse().expect("ticks"))).collect();
    assert_eq!(seen, said);
    let calls: BTreeMap<String, Option<u64>> =
        profile.shares().into_iter().map(|share| (share.name.to_string(), share.calls)).collect();
    for (name, count) in
        [("main::fib", 25), ("Shop::price", 8), ("main::text", 2), ("main::over", 1)]
    {
        assert_eq!(calls[name], Some(count), "{name}");
    }
    let sort = profile.shares().into_iter().find(|share| &*share.name == "main::CORE:sort");
    assert_eq!(sort.expect("an operator").kind, Kind::Xs);
}

/// The lines of nytprofcsv: microseconds and runs.
#[test]
fn lines_of_nytprof_are_what_nytprofcsv_says() {
    let lines = Lines::of(&profile(&data("nytprof.out")));
    let (file, lines) = lines.files.iter().next().expect("a file");
    assert!(file.ends_with("/shop.pl"), "{file}");
    let csv = text("nytprofcsv.csv");
    let rows = csv.lines().filter(|line| !line.starts_with('#'));
    let mut checked = 0;
    for (number, row) in (1..).zip(rows) {
        let words: Vec<&str> = row.splitn(4, ',').collect();
        let (said_s, runs): (f64, u64) =
            (words[0].parse().expect("seconds"), words[1].parse().expect("runs"));
        let line = lines.get(&number).copied().unwrap_or_default();
        assert_eq!(line.runs.unwrap_or(0), runs, "{row}");
        assert!((line.own as f64 / S - said_s).abs() < 1e-6, "{row}: {line:?}");
        checked += 1;
    }
    assert_eq!(checked, 16);
}

/// The file with its second part as it is without compression.
fn plain() -> Vec<u8> {
    let bytes = data("nytprof.out");
    let at = bytes.windows(2).position(|two| two == b"\nz").expect("it is compressed") + 1;
    let mut plain = bytes[..at].to_vec();
    ZlibDecoder::new(&bytes[at + 1..]).read_to_end(&mut plain).expect("deflated");
    plain
}

#[test]
fn files_without_compression_and_cut_ones_are_read() {
    let (plain, whole) = (plain(), profile(&data("nytprof.out")));
    let same = profile(&plain);
    assert_eq!(same.taken, whole.taken);
    assert_eq!(same.stacks().count(), whole.stacks().count());
    assert!(!whole.taken.counted.expect("counted").is_cut);
    let cut = profile(&plain[..plain.len() / 2]).taken.counted.expect("counted");
    assert!(cut.is_cut && cut.statements > 0, "{cut:?}");
    let compressed = data("nytprof.out");
    assert!(profile(&compressed[..compressed.len() - 200]).taken.counted.expect("counted").is_cut);
    assert!(profile(b"NYTProf 5 0\n").taken.counted.expect("counted").is_cut);
    let other = read(b"NYTProf 3 0\n").expect_err("an old one").to_string();
    assert!(other.contains("format 3"), "{other}");
    let tmon = data("tmon.out");
    let end = tmon.len() - tmon.iter().rev().position(|byte| *byte == b'*').expect("a goto");
    assert!(profile(&tmon[..end - 1]).taken.counted.expect("counted").is_cut);
}

proptest! {
    #[test]
    fn broken_files_never_panic(
        at in 0.0..1.0f64,
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        is_cut in any::<bool>(),
    ) {
        for file in [plain(), data("nytprof.out"), data("tmon.out")] {
            let at = (at * file.len() as f64) as usize;
            let mut broken = file[..at].to_vec();
            broken.extend(&bytes);
            if !is_cut {
                broken.extend(file.iter().skip(at + bytes.len()));
            }
            if let Ok((profile, _)) = read(&broken) {
                let _ = drom_profile::text::tree(&profile);
                let _ = drom_profile::text::table(&profile, 100);
            }
        }
    }
}
