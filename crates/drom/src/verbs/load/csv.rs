//! A run as one line under a header: every figure of the JSON but its lists, flattened. The columns
//! are the same for every run, so that the lines of many can be put into one file; what a run does
//! not have is empty. Only thresholds add columns, one each.

use drom_load::ErrorKind;
use drom_report::quoted;
use serde_json::Value;

use super::{checks::CHECKS, json, told::Told};

const LISTS: [&str; 2] = ["steps", "checks"];

pub fn summary(told: &Told<'_>) -> String {
    let columns = columns(told);
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let names = columns.iter().map(|(name, _)| quoted(name)).collect();
    line(names) + &line(columns.iter().map(|(_, value)| cell(value)).collect())
}

fn columns(told: &Told<'_>) -> Vec<(String, Value)> {
    let document = json::template(told);
    let mut columns = vec![("url".to_owned(), Value::from(told.url))];
    let is_else =
        |name: &str| ["url", "status", "errors", "checks", "thresholds", "series"].contains(&name);
    let known = document.as_object().into_iter().flatten();
    for (name, value) in known.filter(|(name, _)| !is_else(name)) {
        flatten(name, value, &mut columns);
    }
    let outcome = told.outcome;
    for class in 1..=5_u16 {
        let of_class = outcome.status.iter().filter(|(status, _)| **status / 100 == class);
        let answers: u64 = of_class.map(|(_, count)| count).sum();
        columns.push((format!("status_{class}xx"), answers.into()));
    }
    for kind in ErrorKind::ALL {
        let count = outcome.errors.get(&kind).copied().unwrap_or(0);
        columns.push((format!("errors_{}", kind.name()), count.into()));
    }
    for name in CHECKS.iter().map(|entry| entry.name) {
        let check = told.checks.iter().find(|check| check.name == name);
        let state = check.map(|check| serde_json::to_value(check.state).unwrap_or_default());
        columns.push((format!("check_{name}"), state.unwrap_or_default()));
    }
    for goal in &told.goals {
        columns.push((format!("met {}", goal.threshold.expression), goal.judged.met.into()));
    }
    columns
}

/// `phases.connect_us.p50` becomes `phases_connect_p50_us`: the unit goes last.
fn flatten(name: &str, value: &Value, columns: &mut Vec<(String, Value)>) {
    let Some(members) = value.as_object() else {
        columns.push((name.to_owned(), value.clone()));
        return;
    };
    // Steps and checks of a scenario: a line has no room for them.
    for (member, value) in members.iter().filter(|(member, _)| !LISTS.contains(&&***member)) {
        let name = match name.strip_suffix("_us") {
            Some(stem) => format!("{stem}_{member}_us"),
            None => format!("{name}_{member}"),
        };
        flatten(&name, value, columns);
    }
}

/// A value as it stands in a line.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}
