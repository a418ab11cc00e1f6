//! A process and, where that is asked for, those that descend from it. A [`Family`] finds them as
//! they are forked and looks at those that are perls; what a look is the sampler knows.

use std::{fs, path::PathBuf, time::Duration};

use drom_observe::{RunState, all_processes, clock};

use crate::{
    error::Error,
    profile::{Clock, Frame, Kind, Profile, Taken},
    sampler::Sampler,
    threads::Way,
};

pub struct Family {
    root: i32,
    living: Vec<Member>,
    ended: Vec<(Frame, Profile)>,
    follows: bool,
    /// Who of them is to be looked at now, where that changes.
    at_work: Option<Box<dyn FnMut() -> Vec<i32>>>,
    way: Way,
    began_ns: u64,
    looks: u64,
    scanned_ns: u64,
    notice: Option<String>,
    pub(crate) taken: Taken,
}

struct Member {
    pid: i32,
    what: What,
}

enum What {
    Perl(Box<Sampler>),
    /// Not yet, no more, or one that may not be looked into; its children may be others.
    Other(Other),
}

struct Other {
    state: RunState,
    program: PathBuf,
    /// When it became this program.
    since_ns: u64,
}

/// A perl has its interpreter by then.
const BEGINS_MAX_NS: u64 = 500_000_000;
/// Where the kernel does not tell children, all processes are read, which is slow.
const READ_ALL_NS: u64 = 100_000_000;

impl Family {
    #[must_use]
    pub fn of(root: Sampler) -> Self {
        let (pid, way) = (root.pid(), root.way());
        let living = vec![Member { pid, what: What::Perl(Box::new(root)) }];
        Self { living, ..Self::new(pid, way) }
    }

    /// One that is no perl: its children may be.
    ///
    /// # Errors
    /// That there is no such process.
    pub fn of_other(pid: i32, clock: Clock, stops: bool) -> Result<Self, Error> {
        let other = Other::of(pid).ok_or(Error::NoProcess { pid })?;
        let way = Way { of_cpu: clock == Clock::Cpu, stops };
        let living = vec![Member { pid, what: What::Other(other) }];
        Ok(Self { living, follows: true, ..Self::new(pid, way) })
    }

    /// Processes that do the same work by turns: those that `at_work` names at each look. Where one
    /// was is not told.
    #[must_use]
    pub fn of_pool(clock: Clock, at_work: impl FnMut() -> Vec<i32> + 'static) -> Self {
        let way = Way { of_cpu: clock == Clock::Cpu, stops: false };
        Self { follows: true, at_work: Some(Box::new(at_work)), ..Self::new(0, way) }
    }

    fn new(root: i32, way: Way) -> Self {
        Self {
            root,
            living: Vec::new(),
            ended: Vec::new(),
            follows: false,
            at_work: None,
            way,
            began_ns: clock::monotonic_ns(),
            looks: 0,
            scanned_ns: 0,
            notice: None,
            taken: Taken::default(),
        }
    }

    /// Its children, too, and theirs.
    #[must_use]
    pub fn with_children(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Takes a sample of each.
    ///
    /// # Errors
    /// That all of them have ended, or why the only one cannot be looked at any more.
    pub fn sample(&mut self) -> Result<(), Error> {
        self.looks += 1;
        if let Some(at_work) = &mut self.at_work {
            let pids = at_work();
            self.sample_pool(&pids);
            return Ok(());
        }
        if self.follows {
            self.find();
        }
        let mut at = 0;
        while let Some(Member { pid, what }) = self.living.get_mut(at) {
            let looked = match what {
                What::Perl(sampler) => sampler.sample(),
                What::Other(_) => look_again(*pid, what, self.way),
            };
            match looked {
                Ok(()) => at += 1,
                Err(error) if !self.follows => return Err(error),
                Err(_) => at += usize::from(self.has_changed(at)),
            }
        }
        match self.living.is_empty() {
            true => Err(Error::Ended { pid: self.root }),
            false => Ok(()),
        }
    }

    fn sample_pool(&mut self, pids: &[i32]) {
        for pid in pids {
            let known = self.living.iter().position(|member| member.pid == *pid);
            let at = known.unwrap_or_else(|| {
                let what = Sampler::attach_by(*pid, self.way).map(|s| What::Perl(Box::new(s)));
                self.living.extend(what.ok().map(|what| Member { pid: *pid, what }));
                self.living.len().saturating_sub(1)
            });
            let Some(Member { pid: found, what: What::Perl(sampler) }) = self.living.get_mut(at)
            else {
                continue;
            };
            if found == pid && sampler.sample().is_err() {
                self.retire(at);
            }
        }
    }

    /// What of them could not be seen.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let perls = self.living.iter().filter_map(Member::sampler);
        self.notice.clone().or_else(|| perls.filter_map(Sampler::notice).next())
    }

    /// What was seen so far: of several processes each below a frame of its own.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let living = self.living.iter().filter_map(|member| self.seen(member));
        let all: Vec<(Frame, Profile)> = self.ended.iter().cloned().chain(living).collect();
        let are_many = self.at_work.is_none()
            && all.iter().filter(|(_, seen)| seen.taken.samples > 0).count() > 1;
        let mut merged = Profile::default();
        for (frame, profile) in all {
            merged.merge_below(are_many.then_some(frame), &profile);
        }
        merged.taken.missed += self.taken.missed;
        merged
    }

    /// What cannot be looked at any more stays in the family as long as it lives.
    fn has_changed(&mut self, at: usize) -> bool {
        let pid = self.retire(at);
        let Some(other) = Other::of(pid) else { return false };
        self.living.insert(at, Member { pid, what: What::Other(other) });
        true
    }

    /// Keeps what was seen of it.
    fn retire(&mut self, at: usize) -> i32 {
        let member = self.living.remove(at);
        if let Some(sampler) = member.sampler() {
            self.notice = self.notice.take().or_else(|| sampler.notice());
        }
        self.ended.extend(self.seen(&member));
        member.pid
    }

    /// What was seen of it, and the frame for it, if anything was.
    fn seen(&self, Member { pid, what }: &Member) -> Option<(Frame, Profile)> {
        let What::Perl(sampler) = what else { return None };
        if !sampler.has_samples() && *pid != self.root {
            return None;
        }
        let passed = Duration::from_nanos(clock::monotonic_ns() - self.began_ns);
        let part = if self.looks == 0 { 1.0 } else { sampler.looks() as f64 / self.looks as f64 };
        let name = format!("process {pid} ({})", sampler.title());
        let frame = Frame { name: name.into(), kind: Kind::Process, file: "".into(), line: 0 };
        Some((frame, sampler.profile(passed.mul_f64(part))))
    }

    /// Children that were not there before, and theirs.
    fn find(&mut self) {
        let now_ns = clock::monotonic_ns();
        let mut at = 0;
        while let Some(parent) = self.living.get(at).map(|member| member.pid) {
            at += 1;
            let children = match children(parent) {
                Some(children) => children,
                None if now_ns >= self.scanned_ns + READ_ALL_NS => {
                    self.scanned_ns = now_ns;
                    let all = all_processes().into_iter();
                    all.filter(|stat| stat.parent == parent).map(|stat| stat.pid).collect()
                }
                None => continue,
            };
            for pid in children {
                if self.living.iter().all(|known| known.pid != pid) {
                    self.add(parent, pid);
                }
            }
        }
    }

    /// A fork is the perl that its parent is, until it becomes something else.
    fn add(&mut self, parent: i32, pid: i32) {
        let parent = self.living.iter().find(|known| known.pid == parent);
        let forked = parent.and_then(Member::sampler).and_then(|parent| parent.forked(pid));
        let what = match forked {
            Some(sampler) => Some(What::Perl(Box::new(sampler))),
            None => Other::of(pid).map(What::Other),
        };
        self.living.extend(what.map(|what| Member { pid, what }));
    }
}

/// Whether it has become a perl.
fn look_again(pid: i32, what: &mut What, way: Way) -> Result<(), Error> {
    let What::Other(other) = what else { return Ok(()) };
    let now_ns = clock::monotonic_ns();
    other.state.is_running().map_err(|_| Error::Ended { pid })?;
    let program = program(pid);
    if program != other.program {
        (other.program, other.since_ns) = (program, now_ns);
    }
    if now_ns - other.since_ns < BEGINS_MAX_NS
        && let Ok(mut sampler) = Sampler::attach_by(pid, way)
        && sampler.sample().is_ok()
    {
        *what = What::Perl(Box::new(sampler));
    }
    Ok(())
}

impl Member {
    fn sampler(&self) -> Option<&Sampler> {
        match &self.what {
            What::Perl(sampler) => Some(sampler),
            What::Other(_) => None,
        }
    }
}

impl Other {
    /// `None` of one that has ended.
    fn of(pid: i32) -> Option<Self> {
        let state = RunState::of(pid).ok()?;
        state.is_running().ok()?;
        Some(Self { state, program: program(pid), since_ns: clock::monotonic_ns() })
    }
}

fn program(pid: i32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

/// Of all its threads; `None` where the kernel does not tell.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found: Vec<i32> = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => found.extend(text.split_whitespace().flat_map(str::parse::<i32>)),
            Err(_) if thread.path().join("stat").exists() => return None,
            Err(_) => {}
        }
    }
    Some(found)
}
