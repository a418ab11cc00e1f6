//! Two profiles side by side: which subs have another share of the samples, and which differences
//! may be chance. Pure.
//!
//! Samples are taken at moments that do not know what the program does, so that a sub's are
//! binomial. A difference of shares has the interval of Agresti and Caffo (The American
//! Statistician 54, 2000); whether it is shown is Holm's over all subs. What two runs of the same
//! program differ by besides, samples of one run each cannot tell.

use std::{collections::HashMap, sync::Arc};

use drom_stats::{StudentT, holm};
use serde::Serialize;

use crate::profile::{Kind, Profile, Share};

/// By what subs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Exclusive,
    Inclusive,
}

/// Those beyond chance first, and of either the largest change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    pub before: Side,
    pub after: Side,
    pub changes: Vec<Change>,
}

/// A profile as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    pub samples: u64,
    pub each_s: f64,
}

/// A sub in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub name: Arc<str>,
    pub kind: Kind,
    pub before: u64,
    pub after: u64,
    /// After less before, as shares of 1, and the ends of its 95 % interval.
    pub share: f64,
    pub lower: f64,
    pub upper: f64,
    /// No chance, at 5 % over all subs together.
    pub is_shown: bool,
}

const ALPHA: f64 = 0.05;

impl Diff {
    /// Schema `drom-profile-diff/1`; shares are of 1.
    #[must_use]
    pub fn json(&self, by: By) -> String {
        #[derive(Serialize)]
        struct Document<'d> {
            schema: &'static str,
            by: By,
            #[serde(flatten)]
            diff: &'d Diff,
        }
        let document = Document { schema: "drom-profile-diff/1", by, diff: self };
        let text = serde_json::to_string_pretty(&document);
        text.expect("numbers and strings always have a JSON form") + "\n"
    }
}

#[must_use]
pub fn diff(before: &Profile, after: &Profile, by: By) -> Diff {
    let side =
        |profile: &Profile| Side { samples: profile.taken.samples, each_s: profile.taken.each_s() };
    let (first, second) = (side(before), side(after));
    let mut counts: HashMap<(Arc<str>, Kind), (u64, u64)> = HashMap::new();
    let count = |share: &Share| match by {
        By::Exclusive => share.exclusive,
        By::Inclusive => share.inclusive,
    };
    for share in before.shares() {
        let count = count(&share);
        counts.entry((share.name, share.kind)).or_default().0 = count;
    }
    for share in after.shares() {
        let count = count(&share);
        counts.entry((share.name, share.kind)).or_default().1 = count;
    }
    counts.retain(|_, (before, after)| *before + *after > 0);
    let of = |((name, kind), (before, after))| change(name, kind, (before, first), (after, second));
    let (mut changes, p_values): (Vec<Change>, Vec<f64>) = counts.into_iter().map(of).unzip();
    for (change, p) in changes.iter_mut().zip(holm(&p_values)) {
        change.is_shown = p < ALPHA;
    }
    changes.sort_by(|a, b| {
        let by_size = b.share.abs().total_cmp(&a.share.abs());
        b.is_shown.cmp(&a.is_shown).then(by_size).then(a.name.cmp(&b.name))
    });
    Diff { before: first, after: second, changes }
}

/// And the probability that chance alone makes as much of a difference.
fn change(
    name: Arc<str>,
    kind: Kind,
    (before, first): (u64, Side),
    (after, second): (u64, Side),
) -> (Change, f64) {
    let share = |count: u64, side: Side| count as f64 / side.samples.max(1) as f64;
    // One more of either kind on both sides.
    let more = |count: u64, side: Side| (count as f64 + 1.0) / (side.samples as f64 + 2.0);
    let variance = |p: f64, side: Side| p * (1.0 - p) / (side.samples as f64 + 2.0);
    let (p, q) = (more(before, first), more(after, second));
    let error = (variance(p, first) + variance(q, second)).sqrt();
    // Of so many degrees of freedom it is the normal distribution.
    let normal = StudentT::new(1e9);
    let half = normal.quantile(1.0 - ALPHA / 2.0) * error;
    let change = Change {
        name,
        kind,
        before,
        after,
        share: share(after, second) - share(before, first),
        lower: (q - p - half).max(-1.0),
        upper: (q - p + half).min(1.0),
        is_shown: false,
    };
    (change, normal.two_sided_p((q - p) / error))
}

#[cfg(test)]
mod tests {
    use drom_stats::Rng;

    use super::*;
    use crate::profile::Frame;

    /// Samples of three subs with these shares.
    fn profile(rng: &mut Rng, samples: u64, shares: [f64; 2]) -> Profile {
        let frame =
            |name: &str| Frame { name: name.into(), kind: Kind::Sub, file: "".into(), line: 1 };
        let mut profile = Profile::default();
        for _ in 0..samples {
            let name = match rng.unit() {
                u if u < shares[0] => "a",
                u if u < shares[0] + shares[1] => "b",
                _ => "c",
            };
            profile.add([frame(name)], 1);
        }
        profile
    }

    #[test]
    fn the_same_program_is_rarely_said_to_differ_and_a_change_is_found() {
        let (mut wrong, mut found, mut held, mut all) = (0, 0, 0, 0);
        for seed in 0..200 {
            let rng = &mut Rng::new(seed);
            let same = [profile(rng, 500, [0.5, 0.02]), profile(rng, 700, [0.5, 0.02])];
            let diff_of_same = diff(&same[0], &same[1], By::Exclusive);
            wrong += u64::from(diff_of_same.changes.iter().any(|change| change.is_shown));
            for change in &diff_of_same.changes {
                all += 1;
                held += u64::from(change.lower <= 0.0 && 0.0 <= change.upper);
            }
            let other = diff(&same[0], &profile(rng, 500, [0.35, 0.02]), By::Exclusive);
            found += u64::from(other.changes.iter().any(|c| c.is_shown && &*c.name == "a"));
        }
        assert!(wrong <= 16, "5 % are 10: {wrong}");
        assert!(found >= 190, "{found}");
        assert!(held * 100 >= all * 93, "{held} of {all}");
    }

    #[test]
    fn a_sub_may_be_in_one_alone_and_recursion_counts_once() {
        let frame =
            |name: &str| Frame { name: name.into(), kind: Kind::Sub, file: "".into(), line: 1 };
        let (mut before, mut after) = (Profile::default(), Profile::default());
        before.add([frame("old"), frame("old")], 90);
        after.add([frame("new"), frame("old")], 90);
        let by = |by| {
            let changes = diff(&before, &after, by).changes;
            changes.into_iter().map(|c| (c.name, c.before, c.after, c.is_shown)).collect::<Vec<_>>()
        };
        assert_eq!(by(By::Inclusive), [("new".into(), 0, 90, true), ("old".into(), 90, 90, false)]);
        assert_eq!(by(By::Exclusive), [("old".into(), 90, 90, false)]);
    }

    #[test]
    fn nothing_compared_with_nothing_is_nothing() {
        let (a, b) = (Profile::default(), Profile::default());
        assert!(diff(&a, &b, By::Exclusive).changes.is_empty());
    }
}
