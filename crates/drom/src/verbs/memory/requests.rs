//! What a request leaves behind in the workers of a Drom server: their growth by the requests that
//! Perl ran meanwhile, as the server's scoreboard counts them.

use std::{collections::HashMap, iter};

use drom_observe::Stat;
use drom_serve::scoreboard::view::Window;

use super::growth::{Figure, Growth};

/// A server's counts.
pub struct Requests {
    master: i32,
    window: Window,
    /// By worker, when it began to be watched.
    before: HashMap<i32, u64>,
}

/// Of the workers that were there all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerRequest {
    pub requests: u64,
    pub grown_bytes: i64,
}

impl Requests {
    /// `None`: the process is no part of a Drom server that may be looked into.
    pub fn of(pid: i32) -> Option<Self> {
        let parent = |pid: &i32| Stat::of(*pid).map(|stat| stat.parent).filter(|pid| *pid > 0);
        let mut above = iter::successors(Some(pid), parent);
        let (master, window) =
            above.find_map(|pid| Some((pid, Window::open(pid).ok().flatten()?)))?;
        let mut requests = Self { master, window, before: HashMap::new() };
        requests.before = requests.now();
        Some(requests)
    }

    /// Since then, in what was watched.
    pub fn since(&self, growth: &Growth) -> Option<PerRequest> {
        let now = self.now();
        let whole = &growth.whole;
        let uss = Figure::Uss as usize;
        let mut sum = PerRequest { requests: 0, grown_bytes: 0 };
        let mut is_any = false;
        for (pid, (_, course)) in &growth.by_process {
            let is_whole =
                course.first.at_s <= whole.first.at_s && course.last.at_s >= whole.last.at_s;
            let Some((before, now)) = self.before.get(pid).zip(now.get(pid)) else { continue };
            if is_whole {
                is_any = true;
                sum.requests += now.saturating_sub(*before);
                sum.grown_bytes += course.last.bytes[uss] as i64 - course.first.bytes[uss] as i64;
            }
        }
        is_any.then_some(sum)
    }

    fn now(&self) -> HashMap<i32, u64> {
        let view = self.window.look(self.master).ok();
        let workers = view.into_iter().flat_map(|view| view.workers);
        workers.map(|worker| (worker.pid, worker.perl_requests)).collect()
    }
}

impl PerRequest {
    pub fn bytes_per_request(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.grown_bytes as f64 / self.requests as f64)
    }
}
