//! What is inside a perl, for people.

use drom_profile::heap::{Class, Grown, Line, Ops, Package, Sub, Value, Variable};
use drom_report::format::{bytes, number_of, plain, time};

use super::{
    heap::Told,
    table::Table,
    text::{folded, heads},
};

const NAMES_MAX: usize = 60;

pub fn render(told: &Told<'_>, width: Option<usize>) -> String {
    let mut parts = vec![head(told, width)];
    if let Some((place, lines, ops)) = &told.sub {
        parts.push(subs(std::iter::once(&told.inventory.subs[*place])).render(width));
        parts.push(by_line(lines).render(width));
        parts.push(by_op(ops).render(width));
        return parts.join("\n");
    }
    if let Some((passed_s, grown)) = &told.grown {
        parts.push(growth(*passed_s, grown, told.rows, width));
    }
    let is_shown = |package: Option<&str>| told.package.is_none() || told.package == package;
    if told.package.is_none() {
        parts.push(classes(told).render(width));
    }
    let inventory = told.inventory;
    let shown = inventory.packages.iter().filter(|package| is_shown(Some(&package.name)));
    parts.push(packages(shown.take(told.rows), told).render(width));
    let shown = inventory.subs.iter().filter(|sub| is_shown(sub.package.as_deref()));
    parts.push(subs(shown.take(told.rows)).render(width));
    let shown = inventory.variables.iter().filter(|one| is_shown(one.package.as_deref()));
    parts.push(variables(shown.take(told.rows)).render(width));
    if told.package.is_none() {
        parts.push(values(&told.values).render(width));
        parts.extend(lost(told, width));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn head(told: &Told<'_>, width: Option<usize>) -> String {
    let books = told.books;
    let named = format!("{:.1}", (books.named() * 1_000.0).floor() / 10.0);
    let mut words = format!(
        "{}: {} allocated, {named} % of it with a name; {} free",
        told.name,
        size(books.used()),
        size(books.free),
    );
    words += &match told.pause_s {
        Some(pause_s) => format!(". It stood still for {}", time(pause_s)),
        None => ". It could not be stopped: what changed meanwhile may be told wrongly".to_owned(),
    };
    folded(&words, width)
}

fn classes(told: &Told<'_>) -> Table {
    let used = told.books.used().max(1) as f64;
    let mut rows = vec![heads(&["BYTES", "%", "WHAT IT IS FOR"])];
    let mut found: Vec<(u64, &str)> = Class::ALL
        .into_iter()
        .map(|class| (told.books.totals[class as usize], class.words().1))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    found.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    for (bytes, words) in found {
        let share = format!("{:.1}", bytes as f64 / used * 100.0);
        rows.push(vec![size(bytes), share, words.to_owned()]);
    }
    table(rows, &[])
}

/// And what no package has.
fn packages<'a>(packages: impl Iterator<Item = &'a Package>, told: &Told<'_>) -> Table {
    let mut rows = vec![heads(&["BYTES", "IN SUBS", "IN VARIABLES", "SUBS", "PACKAGE"])];
    for package in packages {
        rows.push(vec![
            size(package.bytes),
            size(package.subs_bytes),
            size(package.variables_bytes),
            package.subs.to_string(),
            plain(&package.name),
        ]);
    }
    let others = told.inventory.others.iter().take(told.rows);
    for (words, bytes) in others.filter(|_| told.package.is_none()) {
        let nothing = || String::new();
        rows.push(vec![
            size(*bytes),
            nothing(),
            nothing(),
            nothing(),
            format!("({})", plain(words)),
        ]);
    }
    table(rows, &[3, 2, 1])
}

fn subs<'a>(subs: impl Iterator<Item = &'a Sub>) -> Table {
    let mut rows = vec![heads(&["BYTES", "CODE", "FREED", "UNUSED", "OPS", "SUB", "DEFINED AT"])];
    for sub in subs {
        let place = match &*sub.file {
            "" if sub.is_xs => "in C".to_owned(),
            "" => "-".to_owned(),
            file => format!("{}:{}", plain(file), sub.line),
        };
        rows.push(vec![
            size(sub.bytes),
            size(sub.code_bytes),
            size(sub.freed_bytes),
            size(sub.unused_bytes),
            sub.ops.to_string(),
            name(&sub.name),
            place,
        ]);
    }
    left(&mut rows, 5);
    table(rows, &[6, 2, 3, 4, 1])
}

fn variables<'a>(variables: impl Iterator<Item = &'a Variable>) -> Table {
    let mut rows = vec![heads(&["BYTES", "VALUES", "VARIABLE"])];
    for one in variables {
        rows.push(vec![size(one.bytes), one.values.to_string(), plain(&one.name)]);
    }
    table(rows, &[1])
}

fn values(values: &[Value]) -> Table {
    let mut rows = vec![heads(&["BYTES", "HOLDS", "IN USE", "KIND", "LARGEST VALUES"])];
    for value in values {
        let used = |(used, room): (u64, u64)| format!("{used} of {room}");
        rows.push(vec![
            size(value.bytes),
            size(value.retained_bytes),
            value.used.map_or("-".to_owned(), used),
            name(&value.kind),
            plain(&value.path),
        ]);
    }
    left(&mut rows, 3);
    table(rows, &[2, 1])
}

/// One alone.
pub fn value(value: &Value, total: u64, width: Option<usize>) -> String {
    let mut words = format!(
        "{}, {}: {} itself, {} with all that it leads to, {} of that held by nobody else",
        value.path,
        value.kind,
        size(value.bytes),
        size(total),
        size(value.retained_bytes),
    );
    if let Some((used, room)) = value.used {
        words += &format!("; {used} of {room} in use");
    }
    folded(&words, width)
}

fn by_line(lines: &[Line]) -> Table {
    let mut rows = vec![heads(&["BYTES", "OPS", "LINE"])];
    for line in lines {
        let number = match line.line {
            0 => "of no statement".to_owned(),
            line => line.to_string(),
        };
        rows.push(vec![size(line.bytes), line.ops.to_string(), number]);
    }
    table(rows, &[])
}

fn by_op(ops: &[Ops]) -> Table {
    let mut rows = vec![heads(&["BYTES", "OPS", "OPERATOR"])];
    let shown = ops.iter().map(|op| vec![size(op.bytes), op.count.to_string(), op.name.clone()]);
    rows.extend(shown);
    table(rows, &[])
}

fn growth(passed_s: f64, grown: &[Grown], rows: usize, width: Option<usize>) -> String {
    let of = |sign: i64| grown.iter().filter(move |one| one.bytes.signum() == sign);
    let mut out = match of(1).count() {
        0 => format!("in {} no variable came to hold more", time(passed_s)),
        more => format!(
            "in {} {} came to hold more, {} less",
            time(passed_s),
            number_of(more, "variable"),
            of(-1).count(),
        ),
    };
    out = folded(&out, width);
    let mut table_rows = vec![heads(&["MORE", "VALUES", "NOW", "VARIABLE"])];
    for one in of(1).take(rows) {
        let more = size(one.bytes.unsigned_abs());
        let values = format!("{:+}", one.values);
        table_rows.push(vec![more, values, size(one.now_bytes), plain(&one.name)]);
    }
    if table_rows.len() > 1 {
        out += &table(table_rows, &[2]).render(width);
    }
    out
}

fn lost(told: &Told<'_>, width: Option<usize>) -> Option<String> {
    let lost = &told.inventory.lost;
    if lost.values == 0 {
        return None;
    }
    let words = format!(
        "{} ({}) are lost: nothing holds them any more",
        number_of(lost.values as usize, "value"),
        size(lost.bytes),
    );
    let mut rows = vec![heads(&["NUMBER", "KIND"])];
    let kinds = lost.kinds.iter().take(told.rows);
    rows.extend(kinds.map(|(kind, count)| vec![count.to_string(), plain(kind)]));
    let mut out = folded(&words, width) + &table(rows, &[]).render(width);
    if !lost.cycles.is_empty() {
        out += &folded("rings among them:", width);
        let rings = lost.cycles.iter().take(told.rows);
        rings.for_each(|ring| out += &folded(&format!("  {}", plain(ring)), width));
    }
    Some(out)
}

/// The first row alone is none.
fn table(rows: Vec<Vec<String>>, spare: &'static [usize]) -> Table {
    let rows = if rows.len() > 1 { rows } else { Vec::new() };
    Table { rows, spare, keeps_end: true }
}

/// A column of words that is not the last one.
fn left(rows: &mut [Vec<String>], at: usize) {
    let letters = |row: &Vec<String>| row[at].chars().count();
    let width = rows.iter().map(letters).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row[at] = format!("{:<width$}", row[at]));
}

/// Names in the middle of a table have an end.
fn name(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(NAMES_MAX) {
        None => text,
        Some(_) => {
            let skip = text.chars().count() - NAMES_MAX + 1;
            format!("\u{2026}{}", text.chars().skip(skip).collect::<String>())
        }
    }
}

fn size(count: u64) -> String {
    bytes(count as f64)
}
