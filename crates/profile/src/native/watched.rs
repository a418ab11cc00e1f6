//! One process that is sampled: the clocks of its threads, and what its addresses are called.

use std::{
    collections::{HashMap, HashSet},
    io,
    time::Duration,
};

use drom_observe::{lives, process_cpu};

use super::{
    event::{Event, Setting},
    places::{Files, Place, Places},
};

pub struct Watched {
    pid: i32,
    threads: HashMap<i32, Event>,
    places: Places,
    /// Numbers in the profile, of what is at an address.
    named: HashMap<u64, [u32; 2]>,
    /// Code was mapped since the addresses were named.
    is_stale: bool,
    /// What it had used before, and has by now.
    before: Duration,
    now: Duration,
}

impl Watched {
    pub fn of(pid: i32) -> Self {
        let before = process_cpu(pid).unwrap_or_default();
        Self {
            pid,
            threads: HashMap::new(),
            places: Places::of(pid),
            named: HashMap::new(),
            is_stale: false,
            before,
            now: before,
        }
    }

    /// Gives each thread that has none a clock; whether there still is a thread.
    pub fn find_threads(&mut self, setting: Setting, unseen: &mut Unseen) -> bool {
        let now = threads(self.pid);
        for tid in &now {
            if self.threads.contains_key(tid) || unseen.threads.contains(tid) {
                continue;
            }
            match Event::open(*tid, setting) {
                Ok(event) => drop(self.threads.insert(*tid, event)),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => unseen.add(*tid, error),
            }
        }
        !now.is_empty()
    }

    /// What was written down since the last time. The clocks of threads that have ended are read a
    /// last time.
    pub fn read(&mut self) -> Vec<u8> {
        self.now = process_cpu(self.pid).unwrap_or(self.now).max(self.now);
        let mut bytes = Vec::new();
        self.threads.values_mut().for_each(|event| event.read(&mut bytes));
        bytes
    }

    pub fn forget_ended(&mut self) {
        let now: HashSet<i32> = threads(self.pid).into_iter().collect();
        self.threads.retain(|tid, _| now.contains(tid));
    }

    /// CPU time since it is watched.
    pub fn used(&self) -> Duration {
        self.now - self.before
    }

    pub fn changed(&mut self) {
        self.is_stale = true;
    }

    /// Before addresses are named.
    pub fn refresh(&mut self) {
        if std::mem::take(&mut self.is_stale) {
            self.places.look();
            self.named.clear();
        }
    }

    pub fn code(&self, chain: &[u64]) -> usize {
        self.places.code(chain)
    }

    /// The numbers of the file and the function, by `number` where they are new.
    pub fn named(
        &mut self,
        address: u64,
        files: &mut Files,
        number: impl FnOnce(Place) -> [u32; 2],
    ) -> [u32; 2] {
        if let Some(known) = self.named.get(&address) {
            return *known;
        }
        let numbers = number(self.places.at(address, files));
        self.named.insert(address, numbers);
        numbers
    }
}

/// Threads that no clock could be had for.
#[derive(Default)]
pub struct Unseen {
    threads: HashSet<i32>,
    why: Option<io::Error>,
}

impl Unseen {
    fn add(&mut self, tid: i32, why: io::Error) {
        self.threads.insert(tid);
        self.why = Some(why);
    }

    pub fn notice(&self) -> Option<String> {
        let (count, error) = (self.threads.len(), self.why.as_ref()?);
        let limits = "limits of that are `ulimit -n` and `ulimit -l`";
        Some(format!("threads that could not be sampled: {count} ({error}; {limits})"))
    }
}

/// Those that have not ended.
pub fn threads(pid: i32) -> Vec<i32> {
    let all = drom_observe::threads(pid);
    let is_over = !lives(pid);
    // The first thread may end before the others.
    if is_over { all.into_iter().filter(|tid| *tid != pid).collect() } else { all }
}
