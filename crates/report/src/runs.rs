//! The list of the runs that were kept, for a program or a page.

use drom_store::{Error, Listed, utc};
use serde_json::{Value, json};

use crate::{csv::quoted, format::markdown as escaped, json::pretty};

/// Version of the list; a key is never given another meaning under the same number.
pub const SCHEMA: &str = "drom.runs/1";

/// One word for how a run ended.
#[must_use]
pub fn state(run: &Listed) -> &'static str {
    match &run.end {
        None => "cut off",
        Some(end) if end.interrupted => "stopped",
        Some(end) if end.failed => "failed",
        Some(_) => "done",
    }
}

#[must_use]
pub fn json(runs: &[Listed], damaged: &[Error]) -> String {
    let one = |run: &Listed| -> Value {
        json!({
            "name": run.name,
            "folder": run.folder,
            "plan": run.manifest.name,
            "title": run.manifest.title,
            "started": utc(run.manifest.started_unix_s),
            "state": state(run),
            "reason": run.end.as_ref().map(|end| &end.reason),
            "blocks": run.blocks,
            "dropped": run.dropped,
            "torn": run.torn,
            "effect": run.manifest.effect,
        })
    };
    let runs: Vec<Value> = runs.iter().map(one).collect();
    let damaged: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    let value = json!({ "schema": SCHEMA, "runs": runs, "damaged": damaged });
    pretty(&value)
}

const COLUMNS: [&str; 8] =
    ["name", "started", "state", "blocks", "dropped", "torn", "effect", "title"];

fn cells(run: &Listed) -> [String; 8] {
    [
        run.name.clone(),
        utc(run.manifest.started_unix_s),
        state(run).to_owned(),
        run.blocks.to_string(),
        run.dropped.to_string(),
        run.torn.to_string(),
        run.manifest.effect.to_string(),
        run.manifest.title.clone(),
    ]
}

#[must_use]
pub fn csv(runs: &[Listed]) -> String {
    let line = |run: &Listed| cells(run).map(|cell| quoted(&cell)).join(",") + "\n";
    COLUMNS.join(",") + "\n" + &runs.iter().map(line).collect::<String>()
}

#[must_use]
pub fn markdown(runs: &[Listed]) -> String {
    let line = |cells: [String; 8]| format!("| {} |\n", cells.join(" | "));
    let head = line(COLUMNS.map(str::to_owned)) + "|---|---|---|--:|--:|---|--:|---|\n";
    head + &runs.iter().map(|run| line(cells(run).map(|cell| escaped(&cell)))).collect::<String>()
}
