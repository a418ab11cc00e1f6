//! What became more between two looks at one process, by name. Pure.

use std::collections::HashMap;

use super::inventory::{Inventory, Variable};

/// A variable that holds more (or less) than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    pub name: String,
    pub bytes: i64,
    pub values: i64,
    /// What it holds now.
    pub now_bytes: u64,
}

/// The most grown first; what is as it was is left out.
#[must_use]
pub fn grown(before: &Inventory, after: &Inventory) -> Vec<Grown> {
    let mut sums = HashMap::<&str, (i64, i64, u64)>::new();
    // Variables of several subs may have one name.
    for Variable { name, bytes, values, .. } in &before.variables {
        let sum = sums.entry(name).or_default();
        (sum.0, sum.1) = (sum.0 - *bytes as i64, sum.1 - i64::from(*values));
    }
    for Variable { name, bytes, values, .. } in &after.variables {
        let sum = sums.entry(name).or_default();
        (sum.0, sum.1, sum.2) = (sum.0 + *bytes as i64, sum.1 + i64::from(*values), sum.2 + bytes);
    }
    let changed = sums.into_iter().filter(|(_, (bytes, values, _))| (*bytes, *values) != (0, 0));
    let mut grown: Vec<Grown> = changed
        .map(|(name, (bytes, values, now_bytes))| Grown {
            name: name.to_owned(),
            bytes,
            values,
            now_bytes,
        })
        .collect();
    grown.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    grown
}
