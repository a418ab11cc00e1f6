//! `tmon.out`, the file of Devel::DProf, as a profile: calls by the way that they came, and the CPU
//! time (user and system) of each sub itself, as dprofpp has them by default. Pure.

use std::{collections::HashMap, sync::Arc};

use crate::{
    calls::{Calls, Way},
    profile::Profile,
    stored::NoProfile,
};

pub const FIRST_WORDS: &str = "#fOrTyTwO";

/// What the file says of itself, by name.
type Header<'t> = HashMap<&'t str, f64>;

struct Reader {
    calls: Calls,
    names: HashMap<String, Arc<str>>,
    /// Subs that run: their way, when they began, what those below them took.
    running: Vec<(Way, Arc<str>, f64, f64)>,
    /// Ticks that have passed, and those that counting took of them.
    ticks: f64,
    overhead: f64,
    overhead_each: f64,
    /// The module writes its buffer.
    writes_since: f64,
}

/// The module's own sub: its time is nobody's.
const WRITE: &str = "Devel::DProf::write";

/// # Errors
/// What it is not. A file that was cut off is read as far as it goes, and says so.
pub fn read(text: &str) -> Result<Profile, NoProfile> {
    let mut lines = text.lines().enumerate();
    let header = header(lines.by_ref().map(|(_, line)| line));
    let of = |name: &str| header.get(name).copied().unwrap_or(0.0);
    let per_s = of("hz").max(1.0);
    let over = of("over_utime") + of("over_stime");
    let mut reader = Reader {
        calls: Calls::default(),
        names: HashMap::new(),
        running: Vec::new(),
        ticks: 0.0,
        overhead: 0.0,
        // Of so many calls, of which each begins and ends.
        overhead_each: over / (2.0 * of("over_tests").max(1.0)),
        writes_since: 0.0,
    };
    let records = lines.filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    for (at, line) in records {
        let wrong = || NoProfile::Count { line: at + 1, text: line.chars().take(60).collect() };
        reader.record(line).ok_or_else(wrong)?;
    }
    let is_cut = !reader.running.is_empty();
    while reader.leave() {}
    let whole = of("rrun_utime") + of("rrun_stime") - reader.overhead;
    reader.calls.complete(whole);
    Ok(reader.calls.profile(1e9 / per_s, 0, is_cut))
}

/// `$hz=100; $over_tests=10000;`, until the second part begins.
fn header<'t>(lines: impl Iterator<Item = &'t str>) -> Header<'t> {
    let mut header = Header::new();
    for line in lines.take_while(|line| !line.starts_with("PART")) {
        for pair in line.split(';').filter_map(|pair| pair.trim().strip_prefix('$')) {
            let known = pair.split_once('=').and_then(|(name, value)| {
                Some((name, value.trim().parse().ok().filter(|value: &f64| value.is_finite())?))
            });
            header.extend(known);
        }
    }
    header
}

impl Reader {
    fn record(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        let what = words.next()?;
        let words: Vec<&str> = words.collect();
        match (what, &words[..]) {
            ("&", [id, package, name]) => {
                self.names.insert((*id).to_owned(), format!("{package}::{name}").into());
            }
            ("@", [user, system, _]) => self.ticks += number(user)? + number(system)?,
            ("+", _) => {
                let name = self.name(&words)?;
                self.enter(name);
            }
            ("-", _) => {
                let name = self.name(&words)?;
                self.leave_named(&name);
            }
            ("*", _) => {
                let name = self.name(&words)?;
                self.leave();
                self.enter(name);
            }
            // It was left by die or the like.
            ("/", _) => {
                self.leave();
            }
            _ => return None,
        }
        Some(())
    }

    /// `id`, `& name`, or, from older versions, `user system real name`.
    fn name(&mut self, words: &[&str]) -> Option<Arc<str>> {
        match words {
            [id] => self.names.get(*id).cloned(),
            ["&", name] => Some((*name).into()),
            [user, system, _, name] => {
                self.ticks = number(user)? + number(system)?;
                Some((*name).into())
            }
            _ => None,
        }
    }

    fn enter(&mut self, name: Arc<str>) {
        if &*name == WRITE {
            self.writes_since = self.ticks;
            return;
        }
        self.overhead += self.overhead_each;
        let caller = self.running.last().map_or(Way::MAIN, |(way, ..)| *way);
        let way = self.calls.called(caller, &name);
        self.running.push((way, name, self.ticks - self.overhead, 0.0));
    }

    /// With it those that it had called and that nobody has seen leave.
    fn leave_named(&mut self, name: &str) {
        if name == WRITE {
            self.overhead += self.ticks - self.writes_since;
        } else if let Some(at) = self.running.iter().rposition(|(_, known, ..)| &**known == name) {
            while self.running.len() > at {
                self.leave();
            }
        }
    }

    /// Whether there was one.
    fn leave(&mut self) -> bool {
        let Some((way, _, since, below)) = self.running.pop() else { return false };
        self.overhead += self.overhead_each;
        let took = self.ticks - self.overhead - since;
        self.calls.took(way, took - below);
        if let Some((.., below)) = self.running.last_mut() {
            *below += took;
        }
        true
    }
}

fn number(word: &str) -> Option<f64> {
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "#fOrTyTwO\n$hz=100;\n$over_utime=0; $over_stime=0; $over_rtime=1;\n\
        $over_tests=10000;\n$rrun_utime=50; $rrun_stime=10; $rrun_rtime=90;\n$total_marks=4\n\n\
        PART2\n& 1 A b\n& 2 A c\n+ 1\n@ 10 0 10\n+ 2\n@ 20 1 30\n- 2\n* 2\n@ 4 0 4\n/ 2\n";

    fn of(profile: &Profile, name: &str) -> (u64, u64, Option<u64>) {
        let share = profile.shares().into_iter().find(|share| &*share.name == name).expect(name);
        (share.exclusive / 1_000_000, share.inclusive / 1_000_000, share.calls)
    }

    #[test]
    fn calls_and_times_are_read() {
        let profile = read(FILE).expect("a profile");
        assert_eq!(of(&profile, "A::b"), (100, 310, Some(1)));
        assert_eq!(of(&profile, "A::c"), (250, 250, Some(2)));
        assert_eq!(of(&profile, "main"), (250, 600, Some(1)), "what is left of 600 ms");
        let counted = profile.taken.counted.expect("counted");
        assert_eq!((counted.calls, counted.statements, counted.is_cut), (3, 0, false));
    }

    #[test]
    fn times_in_each_record_are_read_and_what_is_cut_off_says_so() {
        let old = "#fOrTyTwO\n$hz=10;\nPART2\n+ 0 0 0 A::b\n+ 1 0 1 A::c\n- 3 0 3 A::c\n";
        let profile = read(old).expect("a profile");
        assert_eq!(
            (of(&profile, "A::b"), of(&profile, "A::c")),
            ((100, 300, Some(1)), (200, 200, Some(1)))
        );
        assert!(profile.taken.counted.expect("counted").is_cut);
        let wrong = read("#fOrTyTwO\nPART2\n+ 7\n").expect_err("no such sub").to_string();
        assert!(wrong.contains("line 3"), "{wrong}");
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(lines in "(([&@/*+-]|PART2|.hz=) ?[0-9 a&.e-]{0,20}\n){0,12}") {
            let _ = read(&format!("#fOrTyTwO\n{lines}"));
            let _ = read(&format!("{FILE}{lines}"));
        }
    }
}
