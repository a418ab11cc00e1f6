//! The tries of a search as CSV, a line each: the members of the JSON, lists with blanks between.

use serde_json::Value;

use super::{super::csv::cell, Told, json};

pub fn render(told: &Told<'_>) -> String {
    let mut out = HEADS.join(",") + "\n";
    for row in &told.rows {
        let line = serde_json::to_value(json::line(told, row)).unwrap_or_default();
        let cells = HEADS.map(|head| cell(&flat(&line[head])));
        out += &(cells.join(",") + "\n");
    }
    out
}

const HEADS: [&str; 13] = [
    "rate_rps",
    "duration_s",
    "ended",
    "p50_us",
    "p99_us",
    "failed_share",
    "unsent_share",
    "behind_share",
    "mute_connections",
    "growth",
    "came_to_rest",
    "missed",
    "doubts",
];

fn flat(value: &Value) -> Value {
    let Some(list) = value.as_array() else { return value.clone() };
    let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    words.join(" ").into()
}
