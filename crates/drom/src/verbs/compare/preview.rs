//! The plan in words before it runs: cells, time, and how precise it will be.

use std::path::Path;

use drom_compare::{GroupPreview, Plan, Preview};
use drom_report::format;
use serde_json::json;

/// Earlier runs that are looked at.
const RUNS_MOST: usize = 10;

/// From the runs below `root`.
pub fn of(plan: &Plan, root: &Path) -> Preview {
    drom_compare::preview(plan, &drom_store::earlier(root, &plan.name, RUNS_MOST))
}

/// For a program; a half-width is a ratio minus one, `null` where no earlier run tells it.
pub fn json(plan: &Plan, preview: &Preview) -> String {
    let both = |least, most| json!({ "least": least, "most": most });
    let group = |group: &GroupPreview| {
        json!({
            "name": group.name,
            "contestants": group.contestants,
            "earlier_blocks": group.earlier_blocks,
            "half_width_after": group.half_width.map(|(least, most)| both(least, most)),
        })
    };
    let groups: Vec<_> = preview.groups.iter().map(group).collect();
    let value = json!({
        "schema": "drom.preview/1",
        "plan": plan.name,
        "cells": preview.cells,
        "blocks": { "least": preview.blocks.0, "most": preview.blocks.1 },
        "duration_s": both(preview.duration_s.0, preview.duration_s.1),
        "budget_s": preview.budget_s,
        "groups": groups,
    });
    drom_report::pretty(&value)
}

/// Some lines, each with its end.
pub fn lines(preview: &Preview) -> String {
    let mut text = format!("plan: {}\n", whole(preview));
    for group in &preview.groups {
        text += &format!(
            "plan: {}: {}\n",
            format::plain(&group.name),
            precision(group, preview.blocks)
        );
    }
    text
}

fn whole(preview: &Preview) -> String {
    let (groups, cells) = (preview.groups.len(), preview.cells);
    let each = cells / groups.max(1);
    let plural = if groups == 1 { "" } else { "s" };
    let (least, most) = preview.duration_s;
    let duration = if preview.blocks.0 == preview.blocks.1 {
        format!("{} blocks each, about {}", preview.blocks.0, format::time(least))
    } else {
        let (from, to) = (format::time(least), format::time(most.min(preview.budget_s.max(least))));
        format!("{} to {} blocks each, about {from} to {to}", preview.blocks.0, preview.blocks.1)
    };
    format!("{groups} group{plural} of {each} = {cells} cells, {duration}")
}

fn precision(group: &GroupPreview, blocks: (usize, usize)) -> String {
    let Some((wide, narrow)) = group.half_width else {
        return "no earlier run under this load tells how precise it will be".to_owned();
    };
    let percent = |share: f64| format!("\u{b1}{} %", format::three(100.0 * share));
    let (least, most) = blocks;
    let more =
        if least == most { String::new() } else { format!(", {} after {most}", percent(narrow)) };
    format!(
        "intervals of about {} after {least} blocks{more}, by the spread of {} earlier blocks",
        percent(wide),
        group.earlier_blocks
    )
}
