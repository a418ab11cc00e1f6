//! The whole result for a program: findings, and the run they come from.

use drom_store::Run;
use serde_json::{Value, json};

use crate::Findings;

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
    let mut text = serde_json::to_string_pretty(&value).expect("plain data is always JSON");
    text.push('\n');
    text
}
