//! What is inside a perl, for a program: every size in bytes.

use drom_profile::heap::{Class, Grown, Sub};
use serde_json::{Value, json};

use super::heap::Told;

/// Keys are added, never renamed.
const SCHEMA: &str = "drom-heap/1";

pub fn render(told: &Told<'_>) -> String {
    let books = told.books;
    let lost = &told.inventory.lost;
    let class = |class: Class| (class.words().0.to_owned(), books.totals[class as usize].into());
    let mut document = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "of": told.name,
        "used": books.used(),
        "free": books.free,
        "named": books.named(),
        "pause_s": told.pause_s,
        "classes": Class::ALL.into_iter().map(class).collect::<serde_json::Map<_, Value>>(),
        "packages": packages(told),
        "others": told.inventory.others.iter().map(|(what, bytes)| {
            json!({"what": what, "bytes": bytes})
        }).collect::<Value>(),
        "subs": told.inventory.subs.iter().filter(|sub| is_shown(told, sub.package.as_deref()))
            .map(sub).collect::<Value>(),
        "variables": variables(told),
        "values": values(told),
        "lost": {
            "values": lost.values,
            "bytes": lost.bytes,
            "kinds": lost.kinds.iter().map(|(kind, count)| json!({"kind": kind, "count": count}))
                .collect::<Value>(),
            "cycles": lost.cycles,
        },
    });
    if let Some((place, lines, ops)) = &told.sub {
        let mut asked = sub(&told.inventory.subs[*place]);
        asked["lines"] = lines
            .iter()
            .map(|line| json!({"line": line.line, "ops": line.ops, "bytes": line.bytes}))
            .collect();
        asked["operators"] = ops
            .iter()
            .map(|op| json!({"name": op.name, "count": op.count, "bytes": op.bytes}))
            .collect();
        document["sub"] = asked;
    }
    if let Some((passed_s, grown)) = &told.grown {
        document["growth"] = json!({
            "seconds": passed_s,
            "variables": grown.iter().map(one_grown).collect::<Value>(),
        });
    }
    drom_report::pretty(&document)
}

fn is_shown(told: &Told<'_>, package: Option<&str>) -> bool {
    told.package.is_none() || told.package == package
}

fn packages(told: &Told<'_>) -> Value {
    let shown = told.inventory.packages.iter().filter(|one| is_shown(told, Some(&one.name)));
    let one = |package: &drom_profile::heap::Package| {
        json!({
            "name": package.name,
            "bytes": package.bytes,
            "subs_bytes": package.subs_bytes,
            "variables_bytes": package.variables_bytes,
            "subs": package.subs,
        })
    };
    shown.map(one).collect()
}

fn sub(sub: &Sub) -> Value {
    json!({
        "name": sub.name,
        "package": sub.package,
        "is_xs": sub.is_xs,
        "file": sub.file,
        "line": sub.line,
        "ops": sub.ops,
        "bytes": sub.bytes,
        "code_bytes": sub.code_bytes,
        "freed_bytes": sub.freed_bytes,
        "unused_bytes": sub.unused_bytes,
    })
}

fn variables(told: &Told<'_>) -> Value {
    let shown = told.inventory.variables.iter();
    let shown = shown.filter(|one| is_shown(told, one.package.as_deref()));
    let one = |variable: &drom_profile::heap::Variable| {
        json!({
            "name": variable.name,
            "package": variable.package,
            "bytes": variable.bytes,
            "values": variable.values,
        })
    };
    shown.map(one).collect()
}

fn values(told: &Told<'_>) -> Value {
    told.values.iter().map(one_value).collect()
}

fn one_value(value: &drom_profile::heap::Value) -> Value {
    json!({
        "path": value.path,
        "kind": value.kind,
        "bytes": value.bytes,
        "retained_bytes": value.retained_bytes,
        "in_use": value.used.map(|(used, _)| used),
        "room": value.used.map(|(_, room)| room),
    })
}

/// One alone.
pub fn value(value: &drom_profile::heap::Value, total: u64) -> String {
    let mut document = one_value(value);
    document["total_bytes"] = total.into();
    document["schema"] = SCHEMA.into();
    drom_report::pretty(&document)
}

fn one_grown(grown: &Grown) -> Value {
    json!({
        "name": grown.name,
        "bytes": grown.bytes,
        "values": grown.values,
        "now_bytes": grown.now_bytes,
    })
}
