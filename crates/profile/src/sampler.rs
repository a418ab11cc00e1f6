//! Looks at a process and says what it sees by name: a [`Sampler`] is one process's, with all its
//! threads. When to look is the caller's business.

use std::{fs, time::Duration};

use drom_observe::{RunState, Stat, clock, process_cpu};

use crate::{
    error::Error,
    memory::Remote,
    perl::{Perl, gone, is_interpreter},
    profile::{Clock, Frame, Kind, Profile},
    threads::{Looked, Thread, Threads, Way},
};

pub struct Sampler {
    pid: i32,
    way: Way,
    /// What the process had used before, where samples are of CPU time.
    cpu_before: Option<Duration>,
    threads: Threads,
    looks: u64,
    /// When the interpreter was seen to be gone, if it is.
    lost_ns: Option<u64>,
    title: String,
    /// What it used meanwhile, where samples are of that.
    cpu: Option<Duration>,
}

/// A perl has its interpreter by then.
const BEGINS_MAX_NS: u64 = 500_000_000;

impl Sampler {
    /// # Errors
    /// Why the process cannot be looked into.
    pub fn attach(pid: i32, clock: Clock) -> Result<Self, Error> {
        // One that has ended and was not waited for is still there.
        let state = RunState::of(pid).map_err(|_| Error::NoProcess { pid })?;
        state.is_running().map_err(|_| Error::Ended { pid })?;
        Self::of(pid, Way { of_cpu: clock == Clock::Cpu, stops: false }, Perl::attach(pid)?)
    }

    pub(crate) fn attach_by(pid: i32, way: Way) -> Result<Self, Error> {
        let sampler = Self::of(pid, way, Perl::attach(pid)?)?;
        if way.stops { sampler.with_stops() } else { Ok(sampler) }
    }

    /// A child of this one that is still the same perl: what is known of that need not be read.
    pub(crate) fn forked(&self, pid: i32) -> Option<Self> {
        let perl = &self.threads.living[0].interpreter.perl;
        // Which of several threads has forked, and with it whose interpreter goes on, it says.
        let is_embedded = perl.is_embedded || self.threads.living.len() > 1;
        let is_same = match perl.interpreter() {
            Some(at) => is_interpreter(&Remote { pid }, &perl.layout, at).ok()?,
            None => false,
        };
        let perl = Perl { is_embedded, ..perl.clone() };
        if is_same { Self::of(pid, self.way, perl).ok() } else { None }
    }

    fn of(pid: i32, way: Way, perl: Perl) -> Result<Self, Error> {
        let cpu_before = way.of_cpu.then(|| process_cpu(pid).ok_or(Error::NoProcess { pid }));
        let is_child = Stat::of(pid).is_some_and(|stat| stat.parent as u32 == std::process::id());
        Ok(Self {
            pid,
            way,
            cpu_before: cpu_before.transpose()?,
            threads: Threads::of(pid, is_child, perl)?,
            looks: 0,
            lost_ns: None,
            title: title(pid),
            cpu: None,
        })
    }

    /// From now on a thread is stopped while it is looked at, unless it waits anyway.
    ///
    /// # Errors
    /// That it may not be stopped.
    pub fn with_stops(mut self) -> Result<Self, Error> {
        self.threads.living[0].try_stop()?;
        self.way.stops = true;
        Ok(self)
    }

    /// Takes a sample of each thread; of CPU time only of those that have work to do.
    ///
    /// # Errors
    /// That the process is gone.
    pub fn sample(&mut self) -> Result<(), Error> {
        let pid = self.pid;
        self.threads.renew().map_err(|source| gone(pid, source))?;
        self.looks += 1;
        if self.looks.is_power_of_two() {
            self.name();
        }
        let mut at = 0;
        while let Some(thread) = self.threads.living.get_mut(at) {
            let is_main = thread.tid == pid;
            match thread.sample(self.way, is_main)? {
                Looked::Ended if is_main => return Err(Error::Ended { pid }),
                Looked::Ended => {
                    self.threads.retire(at);
                    continue;
                }
                Looked::Lost if is_main => return self.find_again(),
                _ => at += 1,
            }
        }
        self.lost_ns = None;
        if let Some(before) = self.cpu_before {
            let now = process_cpu(pid).ok_or(Error::Ended { pid })?;
            self.cpu = Some(now.saturating_sub(before));
        }
        Ok(())
    }

    /// What runs at this moment in the main thread, outermost frame first, and counts nothing.
    ///
    /// # Errors
    /// That the process is gone, or runs no perl any more.
    pub fn now(&mut self) -> Result<Vec<Frame>, Error> {
        let pid = self.pid;
        self.threads.renew().map_err(|source| gone(pid, source))?;
        let interpreter = &mut self.threads.living[0].interpreter;
        match interpreter.look().map_err(|source| gone(pid, source))? {
            Ok(()) => Ok(interpreter.frames()),
            Err(_) => Err(Error::Ended { pid }),
        }
    }

    /// Who ends has no name any more.
    fn name(&mut self) {
        let title = title(self.pid);
        if !title.is_empty() {
            self.title = title;
        }
    }

    /// The process runs another program; a perl has an interpreter soon.
    fn find_again(&mut self) -> Result<(), Error> {
        let now_ns = clock::monotonic_ns();
        let since_ns = *self.lost_ns.get_or_insert(now_ns);
        match Perl::attach(self.pid) {
            Ok(perl) => {
                self.threads.begin_anew(perl);
                self.name();
                Ok(())
            }
            Err(Error::NoProcess { pid }) => Err(Error::Ended { pid }),
            Err(_) if now_ns - since_ns < BEGINS_MAX_NS => Ok(()),
            Err(Error::NoPerl { pid }) => Err(Error::Replaced { pid, program: title(pid) }),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn way(&self) -> Way {
        self.way
    }

    pub(crate) fn looks(&self) -> u64 {
        self.looks
    }

    /// What it was called last: its script, or what that calls it (`$0`).
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn has_samples(&self) -> bool {
        let all = self.threads.living.iter().chain(&self.threads.ended);
        all.into_iter().any(|thread| thread.interpreter.profile.taken.samples > 0)
    }

    /// What of it could not be seen.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let why = self.threads.refused.as_ref()?;
        Some(format!(
            "process {} has several threads, and only its first interpreter is seen: {why}",
            self.pid
        ))
    }

    /// What was seen so far: of several threads each below a frame of its own.
    pub(crate) fn profile(&self, wall: Duration) -> Profile {
        let Threads { living, ended, .. } = &self.threads;
        let is_seen = |thread: &&Thread| thread.interpreter.profile.taken.samples > 0;
        let are_many = living.iter().chain(ended).filter(is_seen).count() > 1;
        let mut all = Profile::default();
        let told = |thread: &&Thread| is_seen(thread) || thread.tid == self.pid;
        for thread in living.iter().chain(ended).filter(told) {
            let frame = Frame {
                name: format!("thread {}", thread.tid).into(),
                kind: Kind::Thread,
                file: "".into(),
                line: 0,
            };
            all.merge_below(are_many.then_some(frame), &thread.interpreter.profile);
            let part = thread.looks as f64 / self.looks.max(1) as f64;
            all.taken.wall += wall.mul_f64(part);
        }
        all.taken.cpu = self.cpu;
        all
    }

    /// The same, of one whose time nobody has taken.
    #[must_use]
    pub fn into_profile(self) -> Profile {
        self.profile(Duration::ZERO)
    }
}

/// What it is by its command line: of a perl the script.
fn title(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    title_of(line.trim_end_matches('\0').split('\0'))
}

fn title_of<'w>(mut words: impl Iterator<Item = &'w str>) -> String {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let program = words.next().unwrap_or("");
    if !name(program).starts_with("perl") {
        return name(program);
    }
    let script = words.find(|word| !word.starts_with('-') || is_code(word));
    match script {
        Some(word) if is_code(word) => "-e".to_owned(),
        Some(word) => name(word),
        None => name(program),
    }
}

/// `-e`, also behind others that take nothing: `-nle`.
fn is_code(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or("");
    !letters.is_empty()
        && letters.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'E')
        && letters.ends_with(['e', 'E'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_called_by_its_script() {
        let of = |line: &str| title_of(line.split(' '));
        assert_eq!(
            (of("perl /a/b.pl x"), of("perl -w -Ilib b.pl")),
            ("b.pl".into(), "b.pl".into())
        );
        assert_eq!(
            (of("perl -lne print f"), of("/usr/bin/perl5.36")),
            ("-e".into(), "perl5.36".into())
        );
        assert_eq!((of("starman worker"), of("")), ("starman".into(), "".into()));
    }
}
