//! The rules. Each is a function from the house to its violations, with a test that plants one.
//!
//! Rules look at text, not at types: what the compiler or clippy can check (documented `unsafe`,
//! unused code) is theirs.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::{
    functions::functions,
    house::{File, House},
    ratchet::Ratchet,
    text,
};

/// Dependencies between crates point down this list, never up.
const ROOMS: &[&str] = &[
    "drom", "compare", "report", "classics", "store", "serve", "perl", "record", "load",
    "scenario", "profile", "contest", "observe", "stats",
];
/// May use what they need; nothing may depend on them (`testkit`: nothing but tests).
const LEAVES: &[&str] = &["tidy", "bench", "testkit"];

const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;
const FILE_BYTES_MAX: u64 = 1 << 20;
const CHANGELOG_KINDS: &[&str] = &["Serve", "Load", "Profile", "Compare", "Report", "House"];

/// A call that has a better one: pattern, where it is allowed (besides tests), what to write.
struct Banned {
    pattern: &'static str,
    allowed: fn(&File) -> bool,
    instead: &'static str,
}

const BANNED: &[Banned] = &[
    Banned {
        pattern: r"\be?print(ln)?!",
        allowed: |f| f.is_tool() || f.room() == Some("bench"),
        instead: "return the text; only the command's say.rs writes, and it never panics",
    },
    Banned {
        pattern: r"\bInstant::now\b",
        allowed: |f| f.is_tool() || f.path == "crates/observe/src/clock.rs",
        instead: "drom_observe::clock, so that all figures share one origin",
    },
    Banned {
        pattern: r"\.unwrap\(\)",
        allowed: |_| false,
        instead: "expect(\"why it cannot fail\"), or an error",
    },
];

/// Code that says of itself that it is not finished; refused in tests as well.
const UNFINISHED: &[&str] = &[r"\btodo!", r"\bunimplemented!", r"\bdbg!", r"#\[ignore\b"];
const UNFINISHED_WORDS: &[&str] = &[r"\bFIXME\b", r"\bXXX\b"];

#[must_use]
pub fn dependency_arrows(house: &House) -> Vec<String> {
    manifests(house).flat_map(|(room, manifest)| arrows_of(room, &manifest)).collect()
}

fn arrows_of(room: &str, manifest: &toml::Table) -> Vec<String> {
    let place = |name: &str| ROOMS.iter().position(|r| *r == name);
    let is_leaf = LEAVES.contains(&room);
    if place(room).is_none() && !is_leaf {
        return vec![format!(
            "crates/{room}: a room without a place; add it to ROOMS of crates/tidy"
        )];
    }
    let mut faults = Vec::new();
    for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
        let names = manifest.get(section).and_then(toml::Value::as_table);
        for name in names.into_iter().flat_map(toml::Table::keys) {
            let Some(other) = name.strip_prefix("drom-") else { continue };
            let allowed = match (place(room), place(other)) {
                (_, None) => other == "testkit" && section == "dev-dependencies",
                (None, Some(_)) => true,
                (Some(from), Some(to)) => from < to,
            };
            if !allowed {
                let what = format!("{section} on drom-{other} point up the list of rooms");
                faults.push(format!("crates/{room}/Cargo.toml: {what}; move the shared noun down"));
            }
        }
    }
    faults
}

#[must_use]
pub fn long_functions(house: &House, ratchet: &Ratchet) -> Vec<String> {
    ratchet.judge("fn ", &giants(house), "a function has at most 70 lines")
}

/// Counts per file, because a line has no name. `rustfmt::skip` marks tables, whose lines may be
/// long.
#[must_use]
pub fn long_lines(house: &House, ratchet: &Ratchet) -> Vec<String> {
    ratchet.judge("wide ", &wide(house), "lines over 100 columns; wrap them")
}

/// Everything over its limit now, as the ratchet would have it.
#[must_use]
pub fn over_limit(house: &House) -> BTreeMap<String, usize> {
    giants(house).into_iter().chain(wide(house)).collect()
}

fn giants(house: &House) -> BTreeMap<String, usize> {
    let files = house.with_extension(&["rs", "c", "h"]);
    let sized = files.flat_map(|file| {
        functions(file).into_iter().map(move |f| (format!("fn {} {}", file.path, f.name), f.lines))
    });
    sized.filter(|(_, lines)| *lines > FUNCTION_LINES_MAX).collect()
}

fn wide(house: &House) -> BTreeMap<String, usize> {
    let files = house.with_extension(&["rs", "c", "h"]);
    let counted = files.map(|file| (format!("wide {}", file.path), wide_lines(&file.text)));
    counted.filter(|(_, lines)| *lines > 0).collect()
}

fn wide_lines(text: &str) -> usize {
    let code = text::code(text);
    let mut skipped = BTreeSet::new();
    for (start, _) in code.match_indices("rustfmt::skip]") {
        let end = text::item_end(code.as_bytes(), start + "rustfmt::skip]".len());
        let first = code[..start].matches('\n').count();
        skipped.extend(first..=first + code[start..end].matches('\n').count());
    }
    let wide =
        |(i, line): &(usize, &str)| line.chars().count() > COLUMNS_MAX && !skipped.contains(i);
    text.lines().enumerate().filter(wide).count()
}

#[must_use]
pub fn banned_calls(house: &House) -> Vec<String> {
    let mut faults = Vec::new();
    for file in house.with_extension(&["rs"]).filter(|f| !f.is_test()) {
        let code = text::code_without_tests(&file.text);
        for banned in BANNED.iter().filter(|b| !(b.allowed)(file)) {
            faults.extend(
                matches_of(file, &code, banned.pattern).map(|p| format!("{p}; {}", banned.instead)),
            );
        }
    }
    faults
}

#[must_use]
pub fn unfinished(house: &House) -> Vec<String> {
    let mut faults = Vec::new();
    for file in house.with_extension(&["rs", "c", "h", "pm", "pl", "t", "sh"]) {
        // These rules name the words.
        if file.room() == Some("tidy") {
            continue;
        }
        let code = text::code(&file.text);
        let calls = UNFINISHED.iter().flat_map(|p| matches_of(file, &code, p));
        let words = UNFINISHED_WORDS.iter().flat_map(|p| matches_of(file, &file.text, p));
        faults.extend(calls.chain(words).map(|p| format!("{p}; finish it or open an issue")));
    }
    faults
}

fn matches_of(file: &File, text: &str, pattern: &str) -> impl Iterator<Item = String> {
    let pattern = Regex::new(pattern).expect("a constant pattern");
    let found = pattern.find_iter(text).map(|found| {
        let line = text[..found.start()].matches('\n').count() + 1;
        format!("{}:{line}: {}", file.path, found.as_str())
    });
    found.collect::<Vec<_>>().into_iter()
}

/// Every Rust file says what it is with `//!`, every C file with a comment, every script after its
/// `#!`.
#[must_use]
pub fn file_heads(house: &House) -> Vec<String> {
    let wrong = |file: &&File| match file.path.rsplit_once('.').map(|(_, end)| end) {
        Some("rs") => !file.text.starts_with("//! "),
        Some("c" | "h") => !file.text.starts_with("/* "),
        Some("sh") => !file.text.lines().nth(1).is_some_and(|l| l.starts_with("# ")),
        _ => false,
    };
    let wrong = house.files.iter().filter(wrong);
    wrong.map(|f| format!("{}: begin the file with what it is", f.path)).collect()
}

#[must_use]
pub fn file_sizes(house: &House) -> Vec<String> {
    let large = house.files.iter().filter(|f| f.bytes > FILE_BYTES_MAX);
    large.map(|f| format!("{}: {} bytes; the limit is 1 MiB", f.path, f.bytes)).collect()
}

/// `# Changelog`, then `## Unreleased` or `## 1.2.3 - 2026-01-31`, then `### Kind`, then bullets.
#[must_use]
pub fn changelog(house: &House) -> Vec<String> {
    let Some(file) = house.file("CHANGELOG.md") else {
        return vec!["CHANGELOG.md: there is none".to_owned()];
    };
    let version = Regex::new(r"^## (Unreleased|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d)$")
        .expect("a constant pattern");
    let mut faults = Vec::new();
    if !file.text.starts_with("# Changelog\n") {
        faults.push("CHANGELOG.md:1: begin with \"# Changelog\"".to_owned());
    }
    let (mut in_version, mut in_kind) = (false, false);
    for (number, line) in file.text.lines().enumerate().skip(1) {
        let right = if line.starts_with("## ") {
            (in_version, in_kind) = (true, false);
            version.is_match(line)
        } else if let Some(kind) = line.strip_prefix("### ") {
            in_kind = true;
            in_version && CHANGELOG_KINDS.contains(&kind)
        } else {
            let bullet = line.starts_with("- ") || line.starts_with("  ");
            line.is_empty() || !in_version || (in_kind && bullet)
        };
        if !right {
            let number = number + 1;
            faults.push(format!("CHANGELOG.md:{number}: \"{line}\" is no version, kind or bullet"));
        }
    }
    faults
}

/// `docs/dependencies.md` names every direct dependency and no other.
#[must_use]
pub fn dependency_list(house: &House) -> Vec<String> {
    const LIST: &str = "docs/dependencies.md";
    let text = house.file(LIST).map_or("", |f| &f.text);
    let mut listed = BTreeSet::new();
    let rows = text.lines().filter_map(|l| l.strip_prefix("| ")?.split(" | ").next());
    for row in rows.filter(|r| !r.starts_with('-') && *r != "crate") {
        let names = row.split(',').map(|n| n.trim().trim_end_matches(" (tests)").to_owned());
        listed.extend(names);
    }
    let mut used = BTreeSet::new();
    for (_, manifest) in manifests(house) {
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let names = manifest.get(section).and_then(toml::Value::as_table);
            let names = names.into_iter().flat_map(toml::Table::keys);
            used.extend(names.filter(|n| !n.starts_with("drom-")).cloned());
        }
    }
    let missing =
        used.difference(&listed).map(|n| format!("{LIST}: {n} is used; say why it is there"));
    let stale =
        listed.difference(&used).map(|n| format!("{LIST}: {n} is used nowhere; delete its row"));
    missing.chain(stale).collect()
}

/// Links of Markdown files to files of the project lead somewhere.
#[must_use]
pub fn markdown_links(house: &House) -> Vec<String> {
    let link = Regex::new(r#"\]\(([^)\s]+)\)|\bsrc="([^"]+)""#).expect("a constant pattern");
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for file in &house.files {
        known.insert(&file.path);
        known.extend(file.path.match_indices('/').map(|(i, _)| &file.path[..i]));
    }
    let mut faults = Vec::new();
    for file in house.with_extension(&["md"]) {
        for found in link.captures_iter(&file.text) {
            let target = found.get(1).or(found.get(2)).map_or("", |m| m.as_str());
            let local = target.split('#').next().unwrap_or_default();
            if local.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !known.contains(resolve(&file.path, local).as_str()) {
                faults.push(format!("{}: the link to {target} leads nowhere", file.path));
            }
        }
    }
    faults
}

fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|p| !p.is_empty() && *p != ".") {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn manifests(house: &House) -> impl Iterator<Item = (&str, toml::Table)> {
    let files = house.files.iter().filter(|f| f.path.ends_with("/Cargo.toml"));
    files.filter_map(|f| Some((f.room()?, f.text.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(files: &[(&str, &str)]) -> House {
        House::of(files.iter().map(|(path, text)| File::new(path, text)).collect())
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let up = house(&[("crates/stats/Cargo.toml", "[dependencies]\ndrom-load = \"1\"\n")]);
        assert_eq!(dependency_arrows(&up).len(), 1);
        let down =
            house(&[("crates/load/Cargo.toml", "[dependencies]\ndrom-stats.workspace = true\n")]);
        assert!(dependency_arrows(&down).is_empty());
        let leaf = house(&[("crates/drom/Cargo.toml", "[dependencies]\ndrom-testkit = \"1\"\n")]);
        assert_eq!(dependency_arrows(&leaf).len(), 1);
        let in_tests =
            house(&[("crates/drom/Cargo.toml", "[dev-dependencies]\ndrom-testkit = \"1\"\n")]);
        assert!(dependency_arrows(&in_tests).is_empty());
        assert_eq!(dependency_arrows(&house(&[("crates/attic/Cargo.toml", "")])).len(), 1);
    }

    #[test]
    fn a_giant_function_is_found() {
        let of = |lines: usize| format!("fn giant() {{\n{}}}\n", "    f();\n".repeat(lines - 2));
        let at = |lines| long_functions(&house(&[("a.rs", &of(lines))]), &Ratchet::default());
        assert!(at(70).is_empty());
        assert_eq!(at(71).len(), 1);
    }

    #[test]
    fn a_wide_line_is_found_but_not_in_a_table() {
        let wide = format!("// {}\n", "x".repeat(98));
        let at = |text: &str| long_lines(&house(&[("a.rs", text)]), &Ratchet::default()).len();
        assert_eq!(at(&wide), 1);
        assert_eq!(at(&wide[1..]), 0);
        assert_eq!(at(&format!("#[rustfmt::skip]\nconst T: &[u8] = &[\n{wide}];\n")), 0);
    }

    #[test]
    fn a_banned_call_is_found_outside_its_place_and_outside_tests() {
        let calls = "fn f() { println!(); Instant::now(); x.unwrap(); }";
        assert_eq!(banned_calls(&house(&[("crates/load/src/a.rs", calls)])).len(), 3);
        assert_eq!(banned_calls(&house(&[("crates/drom/src/a.rs", calls)])).len(), 3);
        assert_eq!(banned_calls(&house(&[("crates/observe/src/clock.rs", calls)])).len(), 2);
        assert!(banned_calls(&house(&[("crates/load/tests/a.rs", calls)])).is_empty());
        let inside = format!("#[cfg(test)]\nmod tests {{ {calls} }}");
        assert!(banned_calls(&house(&[("crates/load/src/a.rs", &inside)])).is_empty());
        let error = "fn f() { eprintln!(); }";
        assert_eq!(banned_calls(&house(&[("crates/drom/src/a.rs", error)])).len(), 1);
        assert!(banned_calls(&house(&[("crates/bench/src/a.rs", error)])).is_empty());
    }

    #[test]
    fn unfinished_work_is_found_in_tests_too() {
        let text = "// FIXME later\n#[ignore]\nfn f() { todo!() }";
        let faults = unfinished(&house(&[("crates/load/tests/a.rs", text)]));
        assert_eq!(faults.len(), 3);
        assert!(faults[0].starts_with("crates/load/tests/a.rs:3"), "{}", faults[0]);
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        let files = [("a.rs", "use x;"), ("b.c", "int x;"), ("c.sh", "#!/bin/sh\nls\n")];
        assert_eq!(file_heads(&house(&files)).len(), 3);
        let files = [("a.rs", "//! A."), ("b.c", "/* b.c - B. */"), ("c.sh", "#!/bin/sh\n# C.\n")];
        assert!(file_heads(&house(&files)).is_empty());
    }

    #[test]
    fn a_large_file_is_found() {
        let mut file = File::new("a.png", "");
        file.bytes = FILE_BYTES_MAX + 1;
        assert_eq!(file_sizes(&House::of(vec![file])).len(), 1);
    }

    #[test]
    fn a_misshapen_changelog_is_found() {
        let at = |text: &str| changelog(&house(&[("CHANGELOG.md", text)])).len();
        assert_eq!(at("# Changelog\n\nWords.\n\n## Unreleased\n\n### Serve\n- A\n  b.\n"), 0);
        assert_eq!(at("# Changelog\n## 0.1.0 - 2026-11-20\n### Load\n- A\n"), 0);
        assert_eq!(at("# Changes\n"), 1);
        assert_eq!(at("# Changelog\n## Soon\n"), 1);
        assert_eq!(at("# Changelog\n## Unreleased\n### Misc\n- A\n"), 1);
        assert_eq!(at("# Changelog\n## Unreleased\n- A\n"), 1);
        assert_eq!(at("# Changelog\n## Unreleased\n### Load\nprose\n"), 1);
        assert_eq!(changelog(&house(&[])).len(), 1);
    }

    #[test]
    fn a_dependency_without_a_reason_and_a_stale_row_are_found() {
        let list = "| crate | why |\n|---|---|\n| libc | calls |\n| serde, old (tests) | x |\n";
        let manifest = "[dependencies]\nlibc.workspace = true\nnew = \"1\"\nserde = \"1\"\n";
        let files = [("docs/dependencies.md", list), ("crates/load/Cargo.toml", manifest)];
        let faults = dependency_list(&house(&files));
        assert_eq!(faults.len(), 2, "{faults:?}");
    }

    #[test]
    fn a_dead_link_is_found() {
        let files = [
            (
                "docs/a.md",
                "[b](b.md#x) [up](../README.md) [web](https://e.org) [here](#y) [no](c.md)",
            ),
            ("docs/b.md", ""),
            ("README.md", "[docs](docs/) <img src=\"docs/no.svg\">"),
        ];
        let faults = markdown_links(&house(&files));
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
