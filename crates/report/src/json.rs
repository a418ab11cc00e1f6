//! The whole result for a program: findings, and the run they come from.

use drom_store::Run;
use serde_json::{Value, json};

use crate::{Findings, format::is_command};

/// Version of this output; a key is never given another meaning under the same number.
pub const SCHEMA: &str = "drom.compare/1";

#[must_use]
pub fn json(run: &Run, findings: &Findings) -> String {
    let value: Value = json!({
        "schema": SCHEMA,
        "run": run.name(),
        "manifest": run.manifest,
        "end": run.end,
        "blocks": run.blocks.len(),
        "findings": findings,
    });
    pretty(&value)
}

/// JSON for people, too: what could command their terminal stands there as its number.
#[must_use]
pub fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("plain data is always JSON");
    let mut out = String::with_capacity(text.len() + 1);
    for letter in text.chars() {
        // The lines are our own; all others stand in strings.
        if letter != '\n' && is_command(letter) {
            out += &format!("\\u{:04x}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out.push('\n');
    out
}
