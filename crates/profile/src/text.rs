//! A profile in words: the table of dprofpp, and folded stacks as flame graph tools take them.
//! Pure.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::profile::{Frame, Kind, Profile, Taken};

/// Rows of the table, unless more are asked for.
pub const ROWS: usize = 15;

/// `%Time ExclSec CumulS #Calls sec/call Csec/c  Name`: calls are not counted by sampling.
#[must_use]
pub fn table(profile: &Profile, rows: usize) -> String {
    let all = profile.taken.samples;
    let each_s = profile.taken.each_s();
    let mut out = format!("{}\n", summary(profile.taken));
    out += "%Time ExclSec CumulS #Calls sec/call Csec/c  Name\n";
    for share in profile.shares().into_iter().take(rows) {
        let percent = 100.0 * share.exclusive as f64 / all.max(1) as f64;
        let (exclusive_s, inclusive_s) =
            (share.exclusive as f64 * each_s, share.inclusive as f64 * each_s);
        put(
            &mut out,
            format_args!(
                "{percent:5.1} {exclusive_s:7.3} {inclusive_s:6.3} {:>6} {:>8} {:>6}  {}\n",
                "-", "-", "-", share.name
            ),
        );
    }
    out
}

fn summary(taken: Taken) -> String {
    let mut text = format!("{} samples in {:.2} s", taken.samples, taken.wall.as_secs_f64());
    let besides = [(taken.missed, "missed"), (taken.torn, "torn"), (taken.idle, "idle")];
    for (count, what) in besides.into_iter().filter(|(count, _)| *count > 0) {
        put(&mut text, format_args!(", {count} {what}"));
    }
    text
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
    match with_lines && !matches!(frame.kind, Kind::Op | Kind::Xs) {
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

    fn some() -> Profile {
        let frame =
            |name: &str, kind, line| Frame { name: name.into(), kind, file: "a.pl".into(), line };
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
    fn stacks_are_folded() {
        assert_eq!(collapsed(&some(), false), "main 1\nmain;A::b:c 3\n");
        assert_eq!(collapsed(&some(), true), "main:9 1\nmain:9;A::b:c:2 3\n");
    }
}
