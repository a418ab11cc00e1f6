//! A profile in words: the table and the call tree of dprofpp, and folded stacks as flame graph
//! tools take them.
//! Pure.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    diff::{By, Change, Diff, Side},
    profile::{Counted, Frame, Kind, Profile, Taken},
    tree::Tree,
};

/// Rows of the table, unless more are asked for.
pub const ROWS: usize = 15;
/// Of the tree: a node with less than this part of the samples is left out.
const TREE_SHARE: u64 = 200;
/// Deeper ones are not indented more.
const INDENT_MAX: usize = 60;

/// `%Time ExclSec CumulS #Calls sec/call Csec/c  Name`: `-` where calls were not counted.
#[must_use]
pub fn table(profile: &Profile, rows: usize) -> String {
    let all = profile.taken.samples;
    let each_s = profile.taken.each_s();
    let mut out = format!("{}\n", summary(profile));
    out += "%Time ExclSec CumulS #Calls sec/call Csec/c  Name\n";
    for share in profile.shares().into_iter().take(rows) {
        let percent = 100.0 * share.exclusive as f64 / all.max(1) as f64;
        let (exclusive_s, inclusive_s) =
            (share.exclusive as f64 * each_s, share.inclusive as f64 * each_s);
        let each = |seconds: f64| {
            let calls = share.calls.filter(|calls| *calls > 0);
            calls.map_or_else(|| "-".to_owned(), |calls| seconds_a_call(seconds / calls as f64))
        };
        let calls = share.calls.map_or_else(|| "-".to_owned(), |calls| calls.to_string());
        let (each_own, each_all) = (each(exclusive_s), each(inclusive_s));
        put(
            &mut out,
            format_args!(
                "{percent:5.1} {exclusive_s:7.3} {inclusive_s:6.3} {calls:>6} {each_own:>8} \
                 {each_all:>6}  {}\n",
                share.name
            ),
        );
    }
    out
}

/// dprofpp's four decimals, or what fits and is not 0.
fn seconds_a_call(seconds: f64) -> String {
    match seconds {
        short if short > 0.0 && short < 0.001 => format!("{short:.1e}"),
        seconds => format!("{seconds:.4}"),
    }
}

/// Who called whom: what a sub called stands below it, indented by three as dprofpp has it.
#[must_use]
pub fn tree(profile: &Profile) -> String {
    let (all, each_s) = (profile.taken.samples, profile.taken.each_s());
    let tree = Tree::of(profile);
    let whole = tree.nodes.len();
    let nodes = tree.without_small((all / TREE_SHARE).max(1)).nodes;
    let mut out = format!("{}\n%Time CumulS ExclSec  Name\n", summary(profile));
    for node in &nodes {
        let percent = 100.0 * node.total as f64 / all.max(1) as f64;
        let (total_s, own_s) = (node.total as f64 * each_s, node.own as f64 * each_s);
        let indent = 3 * node.depth.min(INDENT_MAX);
        let calls = node.calls.map_or_else(String::new, |calls| format!(" x {calls}"));
        put(
            &mut out,
            format_args!(
                "{percent:5.1} {total_s:6.3} {own_s:7.3}  {:indent$}{}{calls}\n",
                "", node.name
            ),
        );
    }
    match whole - nodes.len() {
        0 => out,
        left => out + &format!("({left} with less than half a percent are left out)\n"),
    }
}

/// Which subs have another share; `~` where that may be chance.
#[must_use]
pub fn diff(diff: &Diff, by: By, rows: usize) -> String {
    let Diff { before, after, changes } = diff;
    let what = match by {
        By::Exclusive => "own",
        By::Inclusive => "with callees",
    };
    let side = |side: &Side| {
        format!("{} samples, {:.2} s", side.samples, side.samples as f64 * side.each_s)
    };
    let mut out = format!("before: {}; after: {}\n", side(before), side(after));
    out += &format!("Shares of the samples, {what}; changes in points, with a 95 % interval\n");
    out += "before   after  change                    Name\n";
    for change in changes.iter().take(rows) {
        let share = |count: u64, side: &Side| 100.0 * count as f64 / side.samples.max(1) as f64;
        let (first, second) = (share(change.before, before), share(change.after, after));
        put(
            &mut out,
            format_args!("{first:5.1} % {second:5.1} %  {:<24}  {}\n", points(change), change.name),
        );
    }
    let (more, shown) = (changes.len().saturating_sub(rows), |c: &&Change| c.is_shown);
    if more > 0 {
        let shown = changes.iter().skip(rows).filter(shown).count();
        put(&mut out, format_args!("({more} more, of which {shown} differ beyond chance: -O)\n"));
    }
    out
}

fn points(change: &Change) -> String {
    let Change { share, lower, upper, is_shown, .. } = change;
    match is_shown {
        true => format!("{:+.1} [{:+.1}, {:+.1}]", 100.0 * share, 100.0 * lower, 100.0 * upper),
        false => "~".to_owned(),
    }
}

fn summary(profile: &Profile) -> String {
    let taken = profile.taken;
    let wall_s = taken.wall.as_secs_f64();
    if let Some(Counted { calls, statements, is_cut }) = taken.counted {
        let cut = if is_cut { "; counting was cut off" } else { "" };
        // Not every profiler counts both.
        let statements = match statements {
            0 => String::new(),
            _ => format!(" and {statements} statements"),
        };
        return format!("{calls} calls{statements} in {wall_s:.2} s{cut}");
    }
    let text = match taken.cpu {
        None => format!("{} samples in {wall_s:.2} s", taken.samples),
        Some(cpu) => {
            let cpu_s = cpu.as_secs_f64();
            format!("{} samples of {cpu_s:.2} s of CPU time in {wall_s:.2} s", taken.samples)
        }
    };
    let text = text + &of_many(profile);
    let besides = besides(taken);
    if besides.is_empty() { text } else { text + ", " + &besides }
}

/// The time is that of all of them together: ` of 3 threads`.
#[must_use]
pub fn of_many(profile: &Profile) -> String {
    let of = |kind: Kind| profile.frames().iter().filter(|frame| frame.kind == kind).count();
    match (of(Kind::Process), of(Kind::Thread)) {
        (0, 0) => String::new(),
        (0, threads) => format!(" of {threads} threads"),
        (processes, _) => format!(" of {processes} processes"),
    }
}

/// What is to be known of the samples: `3 missed, 1 torn`; empty where all is well.
#[must_use]
pub fn besides(taken: Taken) -> String {
    let besides = [(taken.missed, "missed"), (taken.torn, "torn"), (taken.idle, "idle")];
    let besides = besides.into_iter().filter(|(count, _)| *count > 0);
    let besides: Vec<String> = besides.map(|(count, what)| format!("{count} {what}")).collect();
    besides.join(", ")
}

/// `main;main::outer;main::inner 12`, a line a stack; with lines where they are asked for.
#[must_use]
pub fn collapsed(profile: &Profile, with_lines: bool) -> String {
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, count) in profile.stacks() {
        let names: Vec<String> = stack.iter().map(|frame| folded_name(frame, with_lines)).collect();
        *folded.entry(names.join(";")).or_default() += count;
    }
    let mut out = String::new();
    folded.iter().for_each(|(stack, count)| put(&mut out, format_args!("{stack} {count}\n")));
    out
}

/// A semicolon would end the frame.
fn folded_name(frame: &Frame, with_lines: bool) -> String {
    let name = frame.name.replace(';', ":");
    match with_lines && frame.line > 0 {
        true => format!("{name}:{}", frame.line),
        false => name,
    }
}

pub(crate) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::profile::made::frame;

    fn some() -> Profile {
        let mut profile = Profile::default();
        profile.add([frame("main", Kind::Main, 9), frame("A::b;c", Kind::Sub, 2)], 3);
        profile.add([frame("main", Kind::Main, 9)], 1);
        (profile.taken.wall, profile.taken.torn) = (Duration::from_secs(2), 1);
        profile
    }

    #[test]
    fn the_table_has_dprofpps_columns() {
        let expected = "4 samples in 2.00 s, 1 torn\n\
                        %Time ExclSec CumulS #Calls sec/call Csec/c  Name\n \
                        75.0   1.500  1.500      -        -      -  A::b;c\n \
                        25.0   0.500  2.000      -        -      -  main\n";
        assert_eq!(table(&some(), ROWS), expected);
        assert_eq!(table(&some(), 1).lines().count(), 3);
        assert!(table(&Profile::default(), 1).starts_with("0 samples in 0.00 s\n"));
    }

    #[test]
    fn the_time_of_many_is_said_to_be_so() {
        let mut both = some();
        both.merge_below(Some(frame("thread 7", Kind::Thread, 0)), &some());
        assert!(table(&both, 1).starts_with("8 samples in 4.00 s of 1 threads, 2 torn\n"));
        assert!(collapsed(&both, true).contains("thread 7;main:9;A::b:c:2 3\n"));
        both.merge_below(Some(frame("process 7 (x)", Kind::Process, 0)), &some());
        assert!(tree(&both).starts_with("12 samples in 6.00 s of 1 processes"));
    }

    #[test]
    fn calls_are_told_where_they_were_counted() {
        let frame = Frame { name: "f".into(), kind: Kind::Sub, file: "".into(), line: 1 };
        let mut profile = Profile::default();
        let number = profile.number(frame);
        profile.count(&[number], 500_000_000);
        profile.called(&[number], 2_000);
        profile.taken.wall = Duration::from_millis(500);
        profile.taken.counted = Some(Counted { calls: 2_000, statements: 7, is_cut: false });
        let expected = "2000 calls and 7 statements in 0.50 s\n\
                        %Time ExclSec CumulS #Calls sec/call Csec/c  Name\n\
                        100.0   0.500  0.500   2000   2.5e-4 2.5e-4  f\n";
        assert_eq!(table(&profile, 3), expected);
        assert_eq!((seconds_a_call(0.0), seconds_a_call(1.5)), ("0.0000".into(), "1.5000".into()));
    }

    #[test]
    fn the_tree_has_what_was_called_below_what_called_it() {
        let expected = "4 samples in 2.00 s, 1 torn\n\
                        %Time CumulS ExclSec  Name\n\
                        100.0  2.000   0.500  main\n \
                        75.0  1.500   1.500     A::b;c\n";
        assert_eq!(tree(&some()), expected);
        let mut much = some();
        much.add([Frame { name: "x".into(), kind: Kind::Main, file: "".into(), line: 1 }], 1_000);
        assert!(tree(&much).ends_with("(2 with less than half a percent are left out)\n"));
    }

    #[test]
    fn changes_are_points_and_chance_is_a_tilde() {
        let mut after = some();
        after.add([Frame { name: "new".into(), kind: Kind::Sub, file: "".into(), line: 1 }], 96);
        let text = diff(&crate::diff(&some(), &after, By::Exclusive), By::Exclusive, 2);
        let expected = "before: 4 samples, 2.00 s; after: 100 samples, 2.00 s\n\
            Shares of the samples, own; changes in points, with a 95 % interval\n\
            before   after  change                    Name\n  \
            0.0 %  96.0 %  +96.0 [+48.3, +100.0]     new\n \
            75.0 %   3.0 %  -72.0 [-100.0, -24.8]     A::b;c\n\
            (1 more, of which 0 differ beyond chance: -O)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn stacks_are_folded() {
        assert_eq!(collapsed(&some(), false), "main 1\nmain;A::b:c 3\n");
        assert_eq!(collapsed(&some(), true), "main:9 1\nmain:9;A::b:c:2 3\n");
    }
}
