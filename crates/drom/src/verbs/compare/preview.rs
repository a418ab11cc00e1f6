//! The plan in words before it runs: cells, time, and how precise it will be.

use std::path::Path;

use drom_compare::{GroupPreview, Plan, Preview};
use drom_report::format;

/// Earlier runs that are looked at.
const RUNS_MOST: usize = 10;

/// Some lines, each with its end.
pub fn lines(plan: &Plan, root: &Path) -> String {
    let preview = drom_compare::preview(plan, &drom_store::earlier(root, &plan.name, RUNS_MOST));
    let mut text = format!("plan: {}\n", whole(&preview));
    for group in &preview.groups {
        text += &format!("plan: {}: {}\n", group.name, precision(group, preview.blocks));
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
