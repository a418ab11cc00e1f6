//! Where connections rest: with as few workers as can serve them.
//!
//! A worker that serves many connections answers several of them per wake-up, and leaves the other
//! cores to whoever needs them (measured in docs/decisions/003-where-connections-rest.md). So
//! connections gather at the first primary that is awake, and this file decides when that is no
//! longer right: a primary that could use more than its core gives some to the others, if a core is
//! free for them. Central noun: [`View`], what one primary knows at the end of a window;
//! [`View::surplus`] is pure.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use drom_observe::{machine_load::MachineLoad, thread_cpu::ThreadCpu};

use super::{Engine, connection::State};
use crate::scoreboard::Slot;

/// A primary wants more than it has when it ran or waited for its turn this share of a window.
const SATURATED: f64 = 0.9;
/// This much of a core must be free before connections go to a primary that sleeps.
const FREE_CORES: f64 = 0.5;
/// With fewer connections than these, each worker would get so few at a time that waking two costs
/// more than half a core gains: more must be free.
const FEW: usize = 16;
const FREE_CORES_FEW: f64 = 0.7;
/// Primaries that need this much of a core beyond what one fewer could give share evenly.
const SHARED_CORES: f64 = 0.3;
/// Below this a primary counts as one that sleeps.
const BUSY: f64 = 0.05;

/// How one primary spent a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Connections it holds.
    pub connections: usize,
    /// Share of a core that it used.
    pub busy: f64,
}

/// What a primary knows at the end of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pub own: Load,
    /// Share of the window in which it ran or waited for a core.
    pub wanted: f64,
    /// Cores of the machine that nobody used.
    pub free_cores: f64,
    pub peers: Vec<Load>,
}

impl View {
    /// How many connections to give away.
    pub fn surplus(&self) -> usize {
        let Some(least) = self.peers.iter().map(|p| p.connections).min() else { return 0 };
        let worth_it = self.has_room() || self.is_shared();
        if self.wanted < SATURATED || !worth_it || self.own.connections < 2 {
            return 0;
        }
        let idle = self.peers.iter().any(|p| p.busy < SATURATED / 2.0);
        let one = usize::from(idle && self.has_room());
        (self.own.connections.saturating_sub(least) / 2).max(one)
    }

    fn has_room(&self) -> bool {
        let least = if self.own.connections < FEW { FREE_CORES_FEW } else { FREE_CORES };
        self.free_cores >= least
    }

    /// Whether the primaries that run now are all needed.
    fn is_shared(&self) -> bool {
        let running = self.peers.iter().filter(|p| p.busy >= BUSY).count();
        let sum = self.own.busy + self.peers.iter().map(|p| p.busy).sum::<f64>();
        running > 0 && sum > running as f64 + SHARED_CORES
    }
}

/// The readings that a window is the difference of.
#[derive(Default)]
pub struct Meter {
    since_ns: u64,
    thread: ThreadCpu,
    machine: Option<(u64, MachineLoad)>,
}

/// A reading of the machine this much older than a window says nothing about it.
const STALE_WINDOWS: u64 = 3;

impl Meter {
    /// Ends a window of the calling thread: the shares of a core that it used and wanted.
    fn thread(&mut self, now_ns: u64) -> Option<(f64, f64)> {
        let thread = ThreadCpu::own();
        let spent = thread.since(self.thread);
        let wall = Duration::from_nanos(now_ns.saturating_sub(self.since_ns)).as_secs_f64();
        let first = self.since_ns == 0;
        (self.since_ns, self.thread) = (now_ns, thread);
        let share = |time: Duration| (time.as_secs_f64() / wall).min(1.0);
        let busy = share(spent.cpu);
        let wanted = share(spent.cpu + spent.run_delay.unwrap_or_default());
        (!first && wall > 0.0).then_some((busy, wanted))
    }

    /// Cores that nobody used since the last call; 0 when that was too long ago.
    fn free_cores(&mut self, now_ns: u64, window_ns: u64) -> f64 {
        let Some(load) = MachineLoad::now() else { return 0.0 };
        let Some((then_ns, then)) = self.machine.replace((now_ns, load)) else { return 0.0 };
        let total = load.total_ticks.saturating_sub(then.total_ticks);
        if total == 0 || now_ns - then_ns > STALE_WINDOWS * window_ns {
            return 0.0;
        }
        let idle = load.idle_ticks.saturating_sub(then.idle_ticks);
        let cores = drom_observe::core_count();
        idle as f64 / total as f64 * cores as f64
    }
}

impl Engine {
    /// At the end of a window: tells the others how busy this primary is, and gives connections
    /// away when that gains something. Only for the thread that runs Perl: its time is what is
    /// measured.
    pub fn spread(&mut self, window_ns: u64) {
        if !self.setup.primary || !self.can_run_perl || self.draining {
            return;
        }
        self.set_overflow(true);
        let now_ns = self.now_ns;
        let Some((busy, wanted)) = self.meter.thread(now_ns) else { return };
        self.setup.board.slots[self.setup.me].set_busy(busy);
        if wanted < SATURATED {
            return;
        }
        let free_cores = self.meter.free_cores(now_ns, window_ns);
        let own = Load { connections: self.count, busy };
        let view = View { own, wanted, free_cores, peers: self.peers() };
        self.give(view.surplus());
    }

    /// The other primaries that would take a connection.
    fn peers(&self) -> Vec<Load> {
        let load = |slot: &Slot| Load {
            connections: slot.connections.load(Relaxed) as usize,
            busy: slot.busy(),
        };
        self.setup.board.other_primaries(self.setup.me).map(load).collect()
    }

    /// Gives away connections that are between requests. Until the next window this primary takes
    /// none, or it would take its own.
    fn give(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.set_overflow(false);
        let to = self.setup.overflow.1;
        let resting: Vec<usize> =
            (0..self.connections.len()).filter(|&i| self.is_at_rest(i)).take(count).collect();
        for index in resting {
            if !self.hand_to(to, index) {
                return; // the others have not caught up: later
            }
        }
    }

    fn is_at_rest(&self, index: usize) -> bool {
        let connection = self.connections[index].as_ref();
        connection.is_some_and(|c| c.state == State::Reading && c.input.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(connections: usize, busy: f64) -> Load {
        Load { connections, busy }
    }

    fn view(own: Load, wanted: f64, free_cores: f64, peer: Load) -> View {
        View { own, wanted, free_cores, peers: vec![peer] }
    }

    #[test]
    fn a_saturated_primary_gives_half_when_a_core_is_free() {
        assert_eq!(view(load(32, 1.0), 1.0, 0.6, load(0, 0.0)).surplus(), 16);
        assert_eq!(view(load(7, 1.0), 0.95, 1.0, load(1, 0.1)).surplus(), 3);
    }

    #[test]
    fn nothing_moves_without_need_or_room() {
        assert_eq!(view(load(32, 0.7), 0.7, 1.3, load(0, 0.0)).surplus(), 0);
        assert_eq!(view(load(32, 1.0), 1.0, 0.0, load(0, 0.0)).surplus(), 0);
        assert_eq!(view(load(8, 1.0), 1.0, 0.6, load(0, 0.0)).surplus(), 0);
        assert_eq!(view(load(1, 1.0), 1.0, 1.0, load(0, 0.0)).surplus(), 0);
        assert_eq!(
            View { peers: vec![], ..view(load(9, 1.0), 1.0, 1.0, load(0, 0.0)) }.surplus(),
            0
        );
    }

    #[test]
    fn two_that_are_both_needed_share_evenly_on_a_full_machine() {
        assert_eq!(view(load(7, 0.95), 1.0, 0.0, load(1, 0.9)).surplus(), 3);
        // One could do the work of both: nothing is evened out that would wake the second for good.
        assert_eq!(view(load(30, 0.9), 1.0, 0.0, load(2, 0.1)).surplus(), 0);
    }

    #[test]
    fn connections_that_ask_for_more_than_others_move_one_by_one() {
        assert_eq!(view(load(4, 1.0), 1.0, 0.8, load(6, 0.2)).surplus(), 1);
        assert_eq!(view(load(4, 1.0), 1.0, 0.8, load(6, 0.8)).surplus(), 0);
    }
}
