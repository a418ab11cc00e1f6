//! A run and what is thought of it: all that a report of any form is made from.

use drom_load::{Judged, Outcome, Plan, Threshold};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{checks::Check, text::time_us};

/// What every form of the report is made from.
pub struct Told<'a> {
    pub url: &'a str,
    pub plan: &'a Plan,
    pub outcome: &'a Outcome,
    pub checks: Vec<Check>,
    pub goals: Vec<Goal>,
}

/// A threshold and whether it was met.
pub struct Goal {
    pub threshold: Threshold,
    pub judged: Judged,
}

pub fn goals(thresholds: &[Threshold], outcome: &Outcome) -> Vec<Goal> {
    let goal = |threshold: &Threshold| Goal {
        judged: threshold.judge(outcome),
        threshold: threshold.clone(),
    };
    thresholds.iter().map(goal).collect()
}

impl Goal {
    /// In words.
    pub fn value(&self) -> String {
        let words = |value| match self.threshold.unit() {
            "us" => time_us(value),
            unit => format!("{} {unit}", drom_report::format::three(value)),
        };
        let value = self.judged.value.map(words);
        value.map_or_else(|| "not measured".to_owned(), |words| words.trim_end().to_owned())
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut goal = serializer.serialize_struct("Goal", 4)?;
        goal.serialize_field("expression", &self.threshold.expression)?;
        goal.serialize_field("value", &self.judged.value)?;
        goal.serialize_field("unit", self.threshold.unit())?;
        goal.serialize_field("met", &self.judged.met)?;
        goal.end()
    }
}
