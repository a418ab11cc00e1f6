//! The runners of a zygote, as the zygote sees them: [`Runners`]. Which are idle is told by words
//! in shared memory: nobody is woken for it.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};

use drom_observe::clock;
use drom_perl::zygote::Runner;

use super::job::Stdio;
use crate::sys;

/// More children than these run one script each.
const RUNNERS_MAX: usize = 64;
/// One that would be idle beside so many others ends.
const IDLE_MAX: usize = 8;
/// So many stay, however long they have nothing to do; the others go after this time.
const IDLE_MIN: usize = 1;
const PATIENCE_NS: u64 = 10_000_000_000;
const LOOK_MS: i32 = 1000;

const BUSY: u32 = 0;
const IDLE: u32 = 1;

pub struct Runners {
    states: &'static [AtomicU32],
    links: Vec<Link>,
}

struct Link {
    pid: i32,
    number: usize,
    /// Its jobs; closed, it ends.
    socket: OwnedFd,
    used_ns: u64,
}

impl Runners {
    pub fn new() -> io::Result<Self> {
        let at = sys::shared_memory(RUNNERS_MAX * size_of::<AtomicU32>())?;
        // SAFETY: the mapping is zeroed, aligned, large enough, and never unmapped.
        let states = unsafe { std::slice::from_raw_parts(at.cast(), RUNNERS_MAX) };
        Ok(Self { states, links: Vec::new() })
    }

    /// The same words, and no runner yet.
    pub fn same(&self) -> Self {
        Self { states: self.states, links: Vec::new() }
    }

    /// In a runner: it waits for a job.
    pub fn is_idle(&self, number: u32) {
        self.states[number as usize].store(IDLE, SeqCst);
    }

    /// In a runner: enough others wait for a job.
    pub fn are_enough(&self) -> bool {
        self.states.iter().filter(|state| state.load(SeqCst) == IDLE).count() >= IDLE_MAX
    }

    /// When the zygote is to look for idle ones that may go.
    pub fn look_ms(&self) -> i32 {
        if self.links.len() > IDLE_MIN { LOOK_MS } else { -1 }
    }

    /// Jobs go to the last ones of the list, so that the first ones grow old.
    pub fn let_go_of_idle(&mut self, now_ns: u64) {
        let (states, mut count) = (self.states, self.links.len());
        self.links.retain(|link| {
            let is_old = now_ns > link.used_ns + PATIENCE_NS;
            let goes = is_old && count > IDLE_MIN && states[link.number].load(SeqCst) == IDLE;
            count -= usize::from(goes);
            !goes
        });
    }

    pub fn forget(&mut self, pid: i32) {
        self.links.retain(|link| link.pid != pid);
    }

    /// Whether one is idle or can be made.
    pub fn have_room(&self) -> bool {
        let idle = |link: &Link| self.states[link.number].load(SeqCst) == IDLE;
        self.links.len() < RUNNERS_MAX || self.links.iter().any(idle)
    }

    /// Gives a job to a runner, a new one when none is idle: its process. `None` in the new one,
    /// which finds its job on its socket.
    pub fn pass(&mut self, job: &[u8], stdio: Stdio, runner: Runner) -> io::Result<Option<i32>> {
        let taken = |link: &Link| self.states[link.number].swap(BUSY, SeqCst) == IDLE;
        while let Some(at) = self.links.iter().rposition(taken) {
            let link = &mut self.links[at];
            link.used_ns = clock::monotonic_ns();
            match sys::send_fds(link.socket.as_raw_fd(), job, &[], &stdio.0) {
                Ok(()) => return Ok(Some(link.pid)),
                Err(_) => drop(self.links.swap_remove(at)), // it ended meanwhile
            }
        }
        let started = self.start(job, stdio, runner);
        if started.is_err() {
            // There may be room for a process when those that only wait have gone.
            self.links.retain(|link| self.states[link.number].load(SeqCst) != IDLE);
        }
        started
    }

    fn start(&mut self, job: &[u8], stdio: Stdio, runner: Runner) -> io::Result<Option<i32>> {
        let free = |number: &usize| self.links.iter().all(|link| link.number != *number);
        let Some(number) = (0..RUNNERS_MAX).find(free) else {
            return Err(io::Error::other("too many at once"));
        };
        let (mine, theirs) = sys::message_pair(false)?;
        self.states[number].store(BUSY, SeqCst);
        // SAFETY: a zygote has one thread; a module that started others was not preloaded.
        match unsafe { sys::fork() }? {
            None => {
                let began = runner.begin(theirs.as_raw_fd(), number as u32);
                std::mem::forget((mine, theirs));
                if !began {
                    sys::exit_now(1);
                }
                Ok(None)
            }
            Some(pid) => {
                sys::send_fds(mine.as_raw_fd(), job, &[], &stdio.0)?;
                let used_ns = clock::monotonic_ns();
                self.links.push(Link { pid, number, socket: mine, used_ns });
                Ok(Some(pid))
            }
        }
    }
}
