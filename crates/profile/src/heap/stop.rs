//! A process that stands still for a moment: every thread of it is stopped, and goes on afterwards
//! as if nothing had been (`tracee.rs`).

use drom_observe::{Stat, threads};

use crate::tracee::{Stopped, Tracee};

/// Does something while all threads of a process stand still. It is told how far the stack of each
/// reaches; nothing, where they could not be stopped.
pub fn still<R>(pid: i32, work: impl FnOnce(Option<Vec<u64>>) -> R) -> R {
    hold(pid, Vec::new(), Some(Vec::new()), work)
}

/// A thread may have started another one before it was stopped: until there is no new one.
fn hold<R>(
    pid: i32,
    mut held: Vec<i32>,
    tops: Option<Vec<u64>>,
    work: impl FnOnce(Option<Vec<u64>>) -> R,
) -> R {
    let is_new = |tid: &i32| !held.contains(tid);
    let new: Vec<i32> = threads(pid).into_iter().filter(is_new).collect();
    let (false, Some(mut tops)) = (new.is_empty(), tops.clone()) else { return work(tops) };
    let is_child = Stat::of(pid).is_some_and(|stat| stat.parent as u32 == std::process::id());
    let tracee = |tid: &i32| Tracee::new(*tid, is_child && *tid == pid);
    let mut tracees: Vec<Tracee> = new.iter().map(tracee).collect();
    let mut stopped = Vec::new();
    for tracee in &mut tracees {
        match tracee.stop() {
            Ok(Some(thread)) => stopped.push(thread),
            // One that has ended meanwhile moves nothing any more.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Ok(None) | Err(_) => return work(None),
        }
    }
    tops.extend(stopped.iter().filter_map(|thread: &Stopped<'_>| thread.stack_top().ok()));
    held.extend(new);
    hold(pid, held, Some(tops), work)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Play(Child);

    impl Drop for Play {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn state(pid: i32) -> char {
        Stat::of(pid).map_or('-', |stat| stat.state)
    }

    #[test]
    fn all_threads_stand_still_and_go_on() {
        let code = "use threads; threads->create(sub { 1 while 1 })->detach for 1 .. 3; 1 while 1";
        let play = Play(Command::new("perl").args(["-e", code]).spawn().expect("perl"));
        let pid = play.0.id() as i32;
        while threads(pid).len() < 4 {}
        let states = still(pid, |tops| {
            assert_eq!(tops.expect("stopped").len(), 4);
            threads(pid).into_iter().map(state).collect::<String>()
        });
        assert_eq!(states, "tttt");
        while state(pid) != 'R' {}
    }

    #[test]
    fn one_that_is_gone_is_not_stopped() {
        let mut play = Command::new("true").spawn().expect("true");
        play.wait().expect("ends");
        assert_eq!(still(play.id() as i32, |tops| tops), Some(Vec::new()));
        let own = still(std::process::id() as i32, |tops| tops);
        assert_eq!(own, None, "nobody stops itself");
    }
}
