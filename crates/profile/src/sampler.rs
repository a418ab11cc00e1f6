//! Looks at a process and says what it sees by name: a [`Sampler`] is one process's, with all its
//! threads. When to look is the caller's business.

use std::time::Duration;

use drom_observe::{Stat, process_cpu};

use crate::{
    error::Error,
    perl::Perl,
    profile::{Clock, Frame, Kind, Profile, Taken},
    threads::{Looked, Thread, Threads, Way},
};

pub struct Sampler {
    pid: i32,
    way: Way,
    /// What the process had used before, where samples are of CPU time.
    cpu_before: Option<Duration>,
    threads: Threads,
    looks: u64,
    /// Of the process: its threads have their own.
    pub(crate) taken: Taken,
}

impl Sampler {
    /// # Errors
    /// Why the process cannot be looked into.
    pub fn attach(pid: i32, clock: Clock) -> Result<Self, Error> {
        let of_cpu = clock == Clock::Cpu;
        let cpu_before = of_cpu.then(|| process_cpu(pid).ok_or(Error::NoProcess { pid }));
        let is_child = Stat::of(pid).is_some_and(|stat| stat.parent as u32 == std::process::id());
        Ok(Self {
            pid,
            way: Way { of_cpu, stops: false },
            cpu_before: cpu_before.transpose()?,
            threads: Threads::of(pid, is_child, Perl::attach(pid)?)?,
            looks: 0,
            taken: Taken::default(),
        })
    }

    /// From now on a thread is stopped while it is looked at, unless it waits anyway. Looks are
    /// then all taken in the thread that calls this.
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
        self.threads.renew().map_err(|source| crate::perl::gone(pid, source))?;
        self.looks += 1;
        let mut at = 0;
        while let Some(thread) = self.threads.living.get_mut(at) {
            let is_main = thread.tid == pid;
            match thread.sample(self.way, is_main)? {
                Looked::Ended if is_main => return Err(Error::Ended { pid }),
                Looked::Ended => {
                    self.threads.retire(at);
                    continue;
                }
                Looked::Lost => return Err(Error::Ended { pid }),
                Looked::Counted | Looked::Nothing => at += 1,
            }
        }
        if let Some(before) = self.cpu_before {
            let now = process_cpu(pid).ok_or(Error::Ended { pid })?;
            self.taken.cpu = Some(now.saturating_sub(before));
        }
        Ok(())
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

    /// What was seen: of several threads each below a frame of its own.
    #[must_use]
    pub fn into_profile(self) -> Profile {
        let Threads { living, ended, .. } = self.threads;
        let is_seen = |thread: &Thread| thread.interpreter.profile.taken.samples > 0;
        let are_many = living.iter().chain(&ended).filter(|thread| is_seen(thread)).count() > 1;
        let mut all = Profile::default();
        for thread in living.into_iter().chain(ended) {
            let part = thread.looks as f64 / self.looks.max(1) as f64;
            let mut profile = thread.interpreter.profile;
            if profile.taken.samples == 0 && thread.tid != self.pid {
                continue;
            }
            profile.taken.wall = self.taken.wall.mul_f64(part);
            let frame = Frame {
                name: format!("thread {}", thread.tid).into(),
                kind: Kind::Thread,
                file: "".into(),
                line: 0,
            };
            all.merge_below(are_many.then_some(frame), &profile);
        }
        (all.taken.cpu, all.taken.missed) = (self.taken.cpu, self.taken.missed);
        all
    }
}
