//! What was seen, for people.

use drom_observe::{Footprint, Segment, Segments, smaps::Pages};
use drom_report::{
    fold,
    format::{bytes, number_of, plain, time},
};

use super::{
    Told,
    growth::{Course, Figure, Growth},
    look::Look,
    table::Table,
};

/// Tables that were asked for besides.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    pub segments: bool,
    pub libraries: bool,
}

const SHARES: &str = "PSS adds up: a page that several have is divided among them. It is whole in \
                      the RSS and SHARED of each, so that their sums count it several times.";

const COUNTED_ROUGHLY: u64 = 1 << 19;

pub fn render(told: &Told, wants: Wants, width: Option<usize>) -> String {
    let mut parts = Vec::new();
    if let Some(look) = told.look.as_ref().filter(|_| !told.is_script) {
        parts.push(processes(look, width));
    }
    if let Some(segments) = &told.segments {
        if wants.segments {
            parts.push(by_segment(segments).render(width));
        }
        if wants.libraries {
            parts.push(by_file(segments).render(width));
        }
    }
    if let Some(growth) = &told.growth {
        parts.push(course(told, growth, width));
    }
    parts.join("\n")
}

fn processes(look: &Look, width: Option<usize>) -> String {
    let is_one = look.members.len() == 1;
    let mut rows = vec![heads(&["PID", "RSS", "PSS", "USS", "SHARED", "SWAP", "COMMAND"])];
    for member in &look.members {
        rows.push(row(member.pid.to_string(), &member.footprint.pages, &member.command));
    }
    if !is_one {
        let words = processes_of(look.members.len());
        rows.push(row("total".to_owned(), &look.sum().pages, &words));
    }
    let mut out = Table { rows, spare: &[5, 4, 3], keeps_end: false }.render(width);
    let mut notes = Vec::new();
    if !is_one {
        notes.push(SHARES.to_owned());
    }
    if look.hidden > 0 {
        notes.push(format!("{} may not be looked at", processes_of(look.hidden)));
    }
    notes.iter().for_each(|note| out += &folded(note, width));
    out
}

fn processes_of(number: usize) -> String {
    format!("{number} process{}", if number == 1 { "" } else { "es" })
}

fn row(name: String, pages: &Pages, words: &str) -> Vec<String> {
    let figures = [
        pages.rss_bytes,
        pages.pss_bytes,
        pages.uss_bytes(),
        pages.shared_bytes(),
        pages.swap_bytes,
    ];
    let figures = figures.map(|figure| bytes(figure as f64));
    [vec![name], figures.to_vec(), vec![words.to_owned()]].concat()
}

fn by_segment(segments: &Segments) -> Table {
    let named = segments.by_segment.iter().map(|(segment, pages)| (segment.name(), *pages));
    parts("SEGMENT", named.collect())
}

fn by_file(segments: &Segments) -> Table {
    let named = segments.by_file.iter().map(|(file, pages)| (file.as_str(), *pages));
    let mut table = parts("FILE", named.collect());
    table.keeps_end = true;
    table
}

/// Those with the largest PSS first, then what they are together.
fn parts(head: &str, mut named: Vec<(&str, Pages)>) -> Table {
    named.retain(|(_, pages)| *pages != Pages::default());
    named.sort_by_key(|(_, pages)| std::cmp::Reverse(pages.pss_bytes));
    let mut sum = Pages::default();
    named.iter().for_each(|(_, pages)| sum.add(pages));
    named.push(("total", sum));
    let mut rows = vec![heads(&["PSS", "RSS", "USS", "SHARED", "SWAP", head])];
    rows.extend(named.iter().map(|(name, pages)| {
        let mut cells = row(String::new(), pages, name).split_off(1);
        cells.swap(0, 1);
        cells
    }));
    Table { rows, spare: &[4, 3, 1], keeps_end: false }
}

fn course(told: &Told, growth: &Growth, width: Option<usize>) -> String {
    let whole = &growth.whole;
    if whole.looks == 0 {
        return folded(&format!("{} ended before it could be looked at", told.name), width)
            + &kernel(told, width);
    }
    let looks = match whole.looks {
        1 => "1 look".to_owned(),
        looks => format!("{} in {}", number_of(looks, "look"), time(whole.passed_s())),
    };
    let mut out = folded(&looks, width);
    out += &figures(whole).render(width);
    if told.is_tree && growth.by_process.len() > 1 {
        out += "\n";
        out += &by_process(growth).render(width);
    }
    out + &per_request(told, width) + &kernel(told, width)
}

/// Of a Drom server's workers.
fn per_request(told: &Told, width: Option<usize>) -> String {
    let Some(seen) = told.per_request else { return String::new() };
    let words = match seen.bytes_per_request() {
        None => "Perl ran no request meanwhile".to_owned(),
        Some(each) => {
            let requests = number_of(seen.requests as usize, "request");
            let sign = if each < 0.0 { "-" } else { "+" };
            format!("Perl ran {requests}: USS {sign}{} a request", bytes(each.abs()))
        }
    };
    folded(&words, width)
}

fn figures(course: &Course) -> Table {
    let mut rows = vec![heads(&["", "FIRST", "LAST", "MAX", "GROWTH"])];
    for figure in Figure::ALL {
        if figure == Figure::Swap && course.max[figure as usize] == 0 {
            continue;
        }
        let name = figure.name().to_ascii_uppercase();
        rows.push([vec![name], way(course, figure).to_vec()].concat());
    }
    Table { rows: last_to_the_right(rows), spare: &[1], keeps_end: false }
}

fn by_process(growth: &Growth) -> Table {
    let mut rows = vec![heads(&["PID", "PSS FIRST", "LAST", "MAX", "GROWTH", "COMMAND"])];
    for (pid, (command, course)) in &growth.by_process {
        let way = way(course, Figure::Pss).to_vec();
        rows.push([vec![pid.to_string()], way, vec![command.clone()]].concat());
    }
    Table { rows, spare: &[3, 1], keeps_end: false }
}

fn way(course: &Course, figure: Figure) -> [String; 4] {
    let at = figure as usize;
    let seen = [course.first.bytes[at], course.last.bytes[at], course.max[at]];
    let [first, last, max] = seen.map(|figure| bytes(figure as f64));
    [first, last, max, course.slope(figure).map_or("-".to_owned(), slope)]
}

/// `+1.02 MB/s`
fn slope(bytes_per_s: f64) -> String {
    let sign = match bytes_per_s {
        slope if slope >= 0.5 => "+",
        slope if slope <= -0.5 => "-",
        _ => "",
    };
    format!("{sign}{}/s", bytes(bytes_per_s.abs()))
}

/// The last column of a table is for words, which stand to the left.
fn last_to_the_right(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let last = |row: &Vec<String>| row.last().map_or(0, |cell| cell.chars().count());
    let width = rows.iter().map(last).max().unwrap_or(0);
    for cell in rows.iter_mut().filter_map(|row| row.last_mut()) {
        *cell = format!("{cell:>width$}");
    }
    rows
}

/// What fell between two looks; the kernel's count is some pages off.
fn kernel(told: &Told, width: Option<usize>) -> String {
    let seen = told.growth.as_ref().map_or(0, |growth| growth.whole.max[Figure::Rss as usize]);
    let peak = told.kernel_peak_bytes.filter(|peak| *peak > seen + COUNTED_ROUGHLY);
    let words = |peak: u64| format!("RSS was {} at most, says the kernel", bytes(peak as f64));
    peak.map_or(String::new(), |peak| folded(&words(peak), width))
}

pub fn folded(words: &str, width: Option<usize>) -> String {
    let words = plain(words);
    width.map_or_else(|| words.clone(), |width| fold(&words, width)) + "\n"
}

pub fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Every segment, also those that are not there, for a program.
pub fn all_segments(segments: &Segments) -> impl Iterator<Item = (Segment, Pages)> + '_ {
    let pages = |segment| segments.by_segment.get(&segment).copied().unwrap_or_default();
    Segment::ALL.into_iter().map(move |segment| (segment, pages(segment)))
}

/// What is known of a process at one moment, by the names of the JSON.
pub fn named(footprint: &Footprint) -> [(&'static str, u64); 10] {
    let pages = &footprint.pages;
    [
        ("rss", pages.rss_bytes),
        ("pss", pages.pss_bytes),
        ("uss", pages.uss_bytes()),
        ("shared", pages.shared_bytes()),
        ("swap", pages.swap_bytes),
        ("swap_pss", pages.swap_pss_bytes),
        ("anonymous", pages.anonymous_bytes),
        ("size", footprint.size_bytes),
        ("file_pages", footprint.file_bytes),
        ("peak_rss", footprint.peak_rss_bytes),
    ]
}
