//! What a program does now: a [`View`] of the busiest subs, drawn over itself on standard error. It
//! is given what was seen so far and shows what is new in it.

use std::{collections::HashMap, os::fd::AsRawFd, sync::Arc};

use drom_profile::{
    Profile,
    profile::{Kind, Share},
};
use drom_report::format::plain_lines;

use crate::{say, verbs::report::terminal_size};

/// What was there when it was last drawn.
#[derive(Default)]
pub struct View {
    samples: u64,
    exclusive: HashMap<(Arc<str>, Kind), u64>,
    /// Rows on the terminal, to be written over.
    rows: usize,
}

/// Above the subs.
const HEAD_ROWS: usize = 2;
/// A row for whatever the terminal itself writes.
const ROWS_BESIDE: usize = 1;

impl View {
    /// One write over what is there, so that nothing flickers.
    pub fn draw(&mut self, name: &str, profile: &Profile) {
        let (width, height) = terminal_size(std::io::stderr().as_raw_fd()).unwrap_or((80, 24));
        let rows = self.rows(name, profile, width, height);
        let mut text = if self.rows > 0 { format!("\r\x1b[{}A", self.rows) } else { String::new() };
        rows.iter().for_each(|row| text += &format!("\r{row}\x1b[K\n"));
        say::part(text + "\x1b[J");
        self.rows = rows.len();
    }

    /// The view goes away: the result takes its place.
    pub fn clear(self) {
        if self.rows > 0 {
            say::part(format!("\r\x1b[{}A\x1b[J", self.rows));
        }
    }

    /// Subs with the largest part of the last second first.
    fn rows(&mut self, name: &str, profile: &Profile, width: usize, height: usize) -> Vec<String> {
        let (all, each_s) = (profile.taken.samples, profile.taken.each_s());
        let new = all.saturating_sub(std::mem::replace(&mut self.samples, all));
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let mut shares: Vec<(u64, Share)> = profile
            .shares()
            .into_iter()
            .map(|share| {
                let key = (Arc::clone(&share.name), share.kind);
                let before = self.exclusive.insert(key, share.exclusive).unwrap_or(0);
                (share.exclusive.saturating_sub(before), share)
            })
            .collect();
        // Those with as much are in the order of all the time that was watched.
        shares.sort_by_key(|(now, _)| std::cmp::Reverse(*now));
        let wall_s = profile.taken.wall.as_secs_f64();
        let mut rows = vec![
            format!("{name}: {new} samples in the last second, {all} in {wall_s:.0} s"),
            " %Now %Time ExclSec  CumulS  Name".to_owned(),
        ];
        let wanted = height.saturating_sub(HEAD_ROWS + ROWS_BESIDE);
        rows.extend(shares.iter().take(wanted).map(|(now, share)| {
            let (now, time) = (percent(*now, new), percent(share.exclusive, all));
            let [own_s, all_s] =
                [share.exclusive, share.inclusive].map(|count| count as f64 * each_s);
            let name = plain_lines(&share.name);
            format!("{now:5.1} {time:5.1} {own_s:7.2} {all_s:7.2}  {name}")
        }));
        rows.iter().map(|row| row.chars().take(width).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use drom_profile::profile::Frame;

    use super::*;

    #[test]
    fn what_is_new_comes_first() {
        let frame = |name: &str| {
            [Frame { name: name.into(), kind: Kind::Sub, file: "a.pl".into(), line: 1 }]
        };
        let (mut profile, mut view) = (Profile::default(), View::default());
        profile.add(frame("first"), 100);
        profile.taken.wall = Duration::from_secs(1);
        let rows = view.rows("process 7", &profile, 80, 24);
        assert_eq!(rows[0], "process 7: 100 samples in the last second, 100 in 1 s");
        assert_eq!(rows[2], "100.0 100.0    1.00    1.00  first");
        profile.add(frame("second"), 60);
        profile.add(frame("first"), 40);
        profile.taken.wall = Duration::from_secs(2);
        let rows = view.rows("process 7", &profile, 30, 4);
        assert_eq!(rows.len(), 3, "no more than there is room for");
        assert_eq!(rows[2], " 60.0  30.0    0.60    0.60  s", "no wider than that");
    }
}
