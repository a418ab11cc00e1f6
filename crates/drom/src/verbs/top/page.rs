//! The page of one process: figures, the Perl stack where there is one, what its memory is made of,
//! libraries, open files, limits, and the names in its environment - no values.

use std::sync::Arc;

use drom_observe::anatomy::{Anatomy, Limit, Mapping, OpenFile};
use drom_profile::profile::{Frame, Kind};
use serde::{Serialize, Serializer};

use super::{
    figures::{bytes, cpu_time, percent, signed},
    lines::{Column, Line, Tone, table, wrapped},
    model::{Process, Running},
    text::short,
};

#[derive(Clone, Debug, Default, Serialize)]
pub struct Page {
    #[serde(flatten)]
    pub process: Process,
    /// Of a Drom worker that runs Perl.
    pub running: Option<Running>,
    /// Innermost first.
    pub perl_stack: Vec<Call>,
    #[serde(flatten)]
    pub anatomy: Parts,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Call {
    pub sub: Arc<str>,
    pub file: Arc<str>,
    pub line: u32,
}

/// As JSON has it.
#[derive(Clone, Debug, Default)]
pub struct Parts(pub Anatomy);

/// As many of the mappings as say something.
const MAPPINGS: usize = 12;
const INDENT: usize = 10;

/// Innermost first; a boundary of perl's own is no call.
pub fn calls(stack: &[Frame]) -> Vec<Call> {
    let is_one = |frame: &&Frame| match frame.kind {
        Kind::Boundary => false,
        // A worker at rest has an interpreter, and nothing that runs.
        Kind::Main => frame.line > 0,
        _ => true,
    };
    let frames = stack.iter().rev().filter(is_one);
    frames
        .map(|frame| Call {
            sub: Arc::clone(&frame.name),
            file: Arc::clone(&frame.file),
            line: frame.line,
        })
        .collect()
}

pub fn lines(page: &Page, width: usize) -> Vec<Line> {
    let mut lines = vec![title(page, width)];
    lines.extend(figures(page, width));
    lines.extend(page.running.iter().flat_map(|running| request(running, width)));
    lines.extend(section("Perl stack, innermost first", stack(page, width)));
    let Parts(anatomy) = &page.anatomy;
    lines.extend(section("Memory, largest share first", memory(&anatomy.mappings, width)));
    let libraries: Vec<Mapping> =
        anatomy.mappings.iter().filter(|mapping| mapping.is_library()).cloned().collect();
    lines.extend(section("Code: program and libraries", code(&libraries, width)));
    lines.extend(section("Open files", files(&anatomy.files, width)));
    lines.extend(section("Limits", limits(&anatomy.limits, width)));
    lines.extend(section("Environment, names alone", names(&anatomy.variables, width)));
    lines.into_iter().map(|line| line.cut(width)).collect()
}

fn title(page: &Page, width: usize) -> Line {
    let title = format!("Process {}  ", page.process.pid);
    Line::of(title, Tone::Strong).with(page.process.command.to_string(), Tone::Plain).cut(width)
}

/// Nothing of what is not there.
fn section(title: &str, lines: Vec<Line>) -> Vec<Line> {
    if lines.is_empty() {
        return Vec::new();
    }
    let head = [Line::new(), Line::of(title, Tone::Head)];
    head.into_iter().chain(lines).collect()
}

fn figures(page: &Page, width: usize) -> Vec<Line> {
    let (process, Parts(anatomy)) = (&page.process, &page.anatomy);
    let part = |name: &str, figure: String| {
        Line::of(format!("{name} "), Tone::Dim).with(figure, Tone::Plain)
    };
    let size = |size: Option<u64>| size.map_or("-".to_owned(), bytes);
    let mut who = vec![
        part("user", process.user.to_string()),
        part("parent", process.parent.to_string()),
        part("state", process.state.to_string()),
        part("threads", process.threads.to_string()),
        part("CPU", format!("{} %", percent(process.cpu_percent.unwrap_or(0.0)))),
        part("CPU time", cpu_time(process.cpu_s)),
    ];
    let text = |text: &str| drom_report::format::plain(text);
    let room = width.saturating_sub(INDENT + "program ".len());
    let path = |path: &String| short(&text(path), room);
    who.extend(anatomy.executable.iter().map(|of| part("program", path(of))));
    who.extend(anatomy.folder.iter().map(|of| part("folder", path(of))));
    let memory = vec![
        part("RSS", bytes(process.rss_bytes)),
        part("PSS", size(process.pss_bytes)),
        part("USS", size(process.uss_bytes)),
        part("growth", process.growth_bytes.map_or("-".to_owned(), signed)),
        part("largest RSS", size(anatomy.peak_rss_bytes)),
        part("addresses", size(anatomy.virtual_bytes)),
        part("swapped", size(anatomy.swap_bytes)),
    ];
    let disk =
        vec![part("read", size(anatomy.read_bytes)), part("written", size(anatomy.written_bytes))];
    let mut lines = wrapped("About", INDENT, who, width);
    lines.extend(wrapped("Memory", INDENT, memory, width));
    lines.extend(wrapped("Disks", INDENT, disk, width));
    lines
}

fn request(running: &Running, width: usize) -> Vec<Line> {
    let parts = vec![
        Line::of(running.request.clone(), Tone::Strong),
        Line::of("from ", Tone::Dim).with(running.client.clone(), Tone::Plain),
        Line::of("for ", Tone::Dim).with(super::figures::elapsed(running.elapsed_s), Tone::Plain),
    ];
    wrapped("Request", INDENT, parts, width)
}

fn stack(page: &Page, width: usize) -> Vec<Line> {
    let line = |call: &Call| {
        let text = |text: &str| drom_report::format::plain(text);
        let line = Line::of(format!("  {}", text(&call.sub)), Tone::Strong);
        let line = match call.line {
            0 => line,
            number => line.with(format!("  {}:{number}", text(&call.file)), Tone::Plain),
        };
        line.cut(width)
    };
    page.perl_stack.iter().map(line).collect()
}

fn memory(mappings: &[Mapping], width: usize) -> Vec<Line> {
    let rows: Vec<_> = mappings.iter().take(MAPPINGS).map(|of| mapping_row(of, width)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut lines = table(&MEMORY, "", &rows, width);
    let rest = mappings.iter().skip(MAPPINGS);
    let (count, pss) =
        rest.fold((0, 0), |(count, pss), mapping| (count + 1, pss + mapping.pss_bytes));
    if count > 0 {
        let words = format!("  and {count} more with {} together", bytes(pss));
        lines.push(Line::of(words, Tone::Dim).cut(width));
    }
    lines
}

fn code(mappings: &[Mapping], width: usize) -> Vec<Line> {
    let rows: Vec<_> = mappings.iter().map(|of| mapping_row(of, width)).collect();
    if rows.is_empty() { Vec::new() } else { table(&MEMORY, "", &rows, width) }
}

const MEMORY: [Column; 5] = [
    Column { title: "SIZE", rank: 3, is_text: false, is_open: false },
    Column { title: "RSS", rank: 2, is_text: false, is_open: false },
    Column { title: "PSS", rank: 0, is_text: false, is_open: false },
    Column { title: "USS", rank: 1, is_text: false, is_open: false },
    Column { title: "WHAT", rank: 0, is_text: true, is_open: true },
];

/// Where the figures are, and the name begins.
const SIZES: usize = 25;

fn mapping_row(mapping: &Mapping, width: usize) -> Vec<(String, Tone)> {
    let sizes = [mapping.size_bytes, mapping.rss_bytes, mapping.pss_bytes, mapping.uss_bytes];
    let mut row: Vec<_> = sizes.iter().map(|size| (bytes(*size), Tone::Plain)).collect();
    let name = drom_report::format::plain(&mapping.name);
    row.push((short(&name, width.saturating_sub(SIZES)), Tone::Plain));
    row
}

fn files(files: &[OpenFile], width: usize) -> Vec<Line> {
    let line = |file: &OpenFile| {
        let target = drom_report::format::plain(&file.target);
        Line::of(format!("  {:>4} ", file.fd), Tone::Dim).with(target, Tone::Plain).cut(width)
    };
    files.iter().map(line).collect()
}

fn limits(limits: &[Limit], width: usize) -> Vec<Line> {
    // Who is not limited need not be told.
    let is_limited = |limit: &&Limit| limit.soft != "unlimited";
    let line = |limit: &Limit| {
        let hard = if limit.hard == limit.soft {
            String::new()
        } else {
            format!(" (up to {})", limit.hard)
        };
        let value = format!("{} {}{hard}", limit.soft, limit.unit);
        Line::of(format!("  {:<24}", limit.name), Tone::Dim).with(value, Tone::Plain).cut(width)
    };
    limits.iter().filter(is_limited).map(line).collect()
}

fn names(names: &[String], width: usize) -> Vec<Line> {
    if names.is_empty() {
        return Vec::new();
    }
    let name = |name: &String| Line::of(drom_report::format::plain(name), Tone::Plain);
    wrapped("", 2, names.iter().map(name).collect(), width)
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(parts) = self;
        let mapping = |mapping: &Mapping| {
            serde_json::json!({
                "name": mapping.name,
                "is_library": mapping.is_library(),
                "mappings": mapping.count,
                "size_bytes": mapping.size_bytes,
                "rss_bytes": mapping.rss_bytes,
                "pss_bytes": mapping.pss_bytes,
                "uss_bytes": mapping.uss_bytes,
            })
        };
        let file = |file: &OpenFile| serde_json::json!({"fd": file.fd, "target": file.target});
        let limit = |limit: &Limit| {
            serde_json::json!({
                "name": limit.name, "soft": limit.soft, "hard": limit.hard, "unit": limit.unit,
            })
        };
        let all = |items: Vec<serde_json::Value>| serde_json::Value::from(items);
        serde_json::json!({
            "executable": parts.executable,
            "folder": parts.folder,
            "peak_rss_bytes": parts.peak_rss_bytes,
            "virtual_bytes": parts.virtual_bytes,
            "swap_bytes": parts.swap_bytes,
            "read_bytes": parts.read_bytes,
            "written_bytes": parts.written_bytes,
            "memory": all(parts.mappings.iter().map(mapping).collect()),
            "open_files": all(parts.files.iter().map(file).collect()),
            "limits": all(parts.limits.iter().map(limit).collect()),
            "environment_names": parts.variables,
        })
        .serialize(to)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn page() -> Page {
        let mapping = |name: &str, pss_bytes| Mapping {
            name: name.to_owned(),
            has_code: name.ends_with(".so"),
            pss_bytes,
            ..Mapping::default()
        };
        let limit = |name: &str, soft: &str| Limit {
            name: name.to_owned(),
            soft: soft.to_owned(),
            hard: "1048576".to_owned(),
            unit: "files".to_owned(),
        };
        let anatomy = Anatomy {
            mappings: vec![mapping("[heap]", 9_000_000), mapping("/usr/lib/libperl.so", 2_000_000)],
            files: vec![OpenFile { fd: 3, target: "socket:[4711]".to_owned() }],
            limits: vec![limit("Max open files", "1024"), limit("Max cpu time", "unlimited")],
            variables: vec!["DB_PASSWORD".to_owned(), "PATH".to_owned()],
            ..Anatomy::default()
        };
        let call = |sub: &str, line| Call { sub: sub.into(), file: "/srv/hold.pl".into(), line };
        Page {
            process: super::super::text::tests::process(4712, "perl hold.pl"),
            running: None,
            perl_stack: vec![call("CORE:sleep", 0), call("main::wait", 7)],
            anatomy: Parts(anatomy),
        }
    }

    #[test]
    fn everything_is_under_its_heading() {
        let text: Vec<String> = lines(&page(), 80).iter().map(Line::text).collect();
        let under = |title: &str| {
            let at = text.iter().position(|line| line.starts_with(title)).expect(title);
            text[at + 1].trim().to_owned()
        };
        assert_eq!(text[0], "Process 4712  perl hold.pl");
        assert_eq!(under("Perl stack"), "CORE:sleep");
        assert!(text.contains(&"  main::wait  /srv/hold.pl:7".to_owned()), "{text:?}");
        assert_eq!(under("Open files"), "3 socket:[4711]");
        assert!(under("Limits").contains("1024 files (up to 1048576)"), "{text:?}");
        assert_eq!(under("Environment"), "DB_PASSWORD  PATH");
        assert!(!text.iter().any(|line| line.contains("Max cpu time")));
        let code = text.iter().position(|line| line.starts_with("Code:")).expect("code");
        assert!(text[code..code + 3].iter().any(|line| line.ends_with("/usr/lib/libperl.so")));
    }

    #[test]
    fn no_line_is_wider_than_the_window() {
        for width in [10, 40, 80] {
            assert!(lines(&page(), width).iter().all(|line| line.width() <= width), "{width}");
        }
    }

    #[test]
    fn json_has_it_in_one_object() {
        let value = serde_json::to_value(page()).expect("JSON");
        assert_eq!((&value["pid"], &value["open_files"][0]["fd"]), (&4712.into(), &3.into()));
        assert_eq!(value["environment_names"][0], "DB_PASSWORD");
        assert_eq!(value["perl_stack"][1]["line"], 7);
    }
}
