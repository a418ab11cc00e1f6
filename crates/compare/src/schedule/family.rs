//! The processes of one start, as they were seen around its slices: which belong to the server,
//! which of them ended, and which did its work. Pure.

use std::collections::BTreeSet;

use drom_observe::Process;

/// Processes of the server itself: there when it was ready, all through a slice, or able to take a
/// connection. A CGI child that answers one request is none of them.
#[derive(Default)]
pub struct Family {
    members: BTreeSet<i32>,
}

impl Family {
    pub fn of(ready: &[Process]) -> Self {
        Self { members: pids(ready) }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// What took connections meanwhile belongs to it, what is gone does not.
    pub fn meet(&mut self, now: &[Process]) {
        self.members.extend(now.iter().filter(|process| process.listens).map(|p| p.pid));
        let living = pids(now);
        self.members.retain(|pid| living.contains(pid));
    }

    /// How many that served before a slice are gone after it. What began and ended within the slice
    /// was never seen.
    pub fn deaths(&mut self, before: &[Process], after: &[Process]) -> usize {
        self.meet(before);
        let living = pids(after);
        let own = before.iter().filter(|process| self.members.contains(&process.pid));
        let serving = own.filter(|process| serves(process, before));
        let deaths = serving.filter(|process| !living.contains(&process.pid)).count();
        self.members.extend(pids(before).intersection(&living));
        self.meet(after);
        deaths
    }

    pub fn pss(&self, pss: &[(i32, u64)]) -> u64 {
        pss.iter().filter(|(pid, _)| self.members.contains(pid)).map(|(_, bytes)| bytes).sum()
    }
}

/// It takes connections, or is given work by a process that does. What stands further below comes
/// and goes: CGI scripts that wait for another request, say. Where nobody is seen to listen, all
/// may serve.
fn serves(process: &Process, all: &[Process]) -> bool {
    let takes_from = |parent: &Process| parent.listens && parent.pid == process.parent;
    process.listens || all.iter().any(takes_from) || !all.iter().any(|other| other.listens)
}

pub fn cpu_s(processes: &[Process]) -> f64 {
    processes.iter().map(|process| process.cpu_s).sum()
}

/// How many workers there are after a slice, and the memory of one; of none there is no figure.
/// Workers did 1 % of the slice's work or more themselves, or with children that ended, and do not
/// merely stand above other workers. One that began within the slice is a worker too.
pub fn worker_memory(before: &[Process], after: &[Process], pss: &[(i32, u64)]) -> (usize, u64) {
    let of = |process: &Process| Work::of(process, before);
    let all: f64 = after.iter().map(|process| of(process).all()).sum();
    let busy = |process: &&Process| of(process).all() > (0.01 * all).max(0.0);
    let workers = after.iter().filter(busy).filter(|p| !is_supervisor(p, before, after));
    let memory = |pid: i32| pss.iter().find(|(known, _)| *known == pid).map(|(_, bytes)| *bytes);
    let bytes: Vec<u64> = workers.filter_map(|process| memory(process.pid)).collect();
    let mean = bytes.iter().sum::<u64>().checked_div(bytes.len() as u64);
    (bytes.len(), mean.unwrap_or(0))
}

/// Children of it take connections, or did before they ended, and work more than it does itself.
fn is_supervisor(process: &Process, before: &[Process], after: &[Process]) -> bool {
    let is_child = |other: &&Process| other.parent == process.pid && other.listens;
    if !before.iter().chain(after).any(|other| is_child(&other)) {
        return false;
    }
    let children = after.iter().filter(is_child);
    let living: f64 = children.map(|child| Work::of(child, before).all()).sum();
    let work = Work::of(process, before);
    living + work.reaped_s > work.own_s
}

/// CPU time of one process within a slice.
struct Work {
    own_s: f64,
    /// Of its children that ended: all of theirs, also what they used before.
    reaped_s: f64,
}

impl Work {
    fn of(process: &Process, before: &[Process]) -> Self {
        let old = before.iter().find(|old| old.pid == process.pid);
        let (cpu_s, reaped_s) = old.map_or((0.0, 0.0), |old| (old.cpu_s, old.reaped_s));
        let reaped_s = process.reaped_s - reaped_s;
        Self { own_s: process.cpu_s - cpu_s - reaped_s, reaped_s }
    }

    fn all(&self) -> f64 {
        self.own_s + self.reaped_s
    }
}

fn pids(processes: &[Process]) -> BTreeSet<i32> {
    processes.iter().map(|process| process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: i32 = 1;
    const TEMPLATE: i32 = 2;

    fn process(pid: i32, parent: i32, listens: bool, own_s: f64) -> Process {
        let command = String::new();
        Process { pid, parent, command, cpu_s: own_s, reaped_s: 0.0, listens }
    }

    /// A master, a template that forks and buries workers, and these workers.
    fn prefork(reaped_s: f64, workers: &[(i32, f64)]) -> Vec<Process> {
        let mut template = process(TEMPLATE, MASTER, true, 0.01 + 0.1 * reaped_s + reaped_s);
        template.reaped_s = reaped_s;
        let mut all = vec![process(MASTER, 0, true, 0.01), template];
        all.extend(workers.iter().map(|(pid, own_s)| process(*pid, TEMPLATE, true, *own_s)));
        all
    }

    #[test]
    fn workers_that_are_replaced_within_each_slice_end_in_each_slice() {
        let mut family = Family::of(&prefork(0.0, &[(10, 0.01), (11, 0.01)]));
        for slice in 1..10 {
            let pids = |slice: i32| [(10 * slice, 0.01), (10 * slice + 1, 0.01)];
            let (before, after) = (prefork(0.0, &pids(slice)), prefork(0.3, &pids(slice + 1)));
            assert_eq!(family.deaths(&before, &after), 2, "slice {slice}");
            assert_eq!(family.len(), 4);
        }
    }

    #[test]
    fn the_memory_of_recycled_workers_is_theirs_and_not_the_templates() {
        let (before, after) = (prefork(0.0, &[(10, 0.01)]), prefork(0.3, &[(20, 0.01)]));
        let pss = [(MASTER, 1_000_000), (TEMPLATE, 2_500_000), (20, 4_000_000)];
        assert_eq!(worker_memory(&before, &after, &pss), (1, 4_000_000));
        // When no worker was there to be measured there is no figure.
        assert_eq!(worker_memory(&before, &prefork(0.3, &[]), &pss), (0, 0));
    }

    #[test]
    fn workers_that_stay_are_measured_as_ever() {
        let before = prefork(0.0, &[(10, 0.01), (11, 0.01)]);
        let after = prefork(0.0, &[(10, 0.2), (11, 0.3)]);
        let pss = [(MASTER, 1), (TEMPLATE, 2), (10, 30), (11, 50)];
        assert_eq!(worker_memory(&before, &after, &pss), (2, 40));
    }

    #[test]
    fn a_server_that_works_itself_is_no_supervisor_of_its_helpers() {
        let all = |own_s| vec![process(1, 0, true, own_s), process(2, 1, true, 0.0)];
        let pss = [(1, 70), (2, 3)];
        assert_eq!(worker_memory(&all(0.0), &all(0.3), &pss), (1, 70));
        // What its CGI children did, which do not listen, is its work.
        let mut buried = all(0.31);
        buried[0].reaped_s = 0.3;
        buried.pop();
        assert_eq!(worker_memory(&all(0.0)[..1], &buried, &pss), (1, 70));
    }

    #[test]
    fn an_idle_cgi_child_that_ends_is_no_death() {
        let spawner = |children: &[i32]| {
            let mut all = prefork(0.0, &[(10, 0.01)]);
            all.extend([process(5, MASTER, false, 0.0), process(6, 5, false, 0.0)]);
            all.extend(children.iter().map(|pid| process(*pid, 6, false, 0.1)));
            all
        };
        // There when the server was ready, and one that lived through a slice.
        let mut family = Family::of(&spawner(&[50]));
        assert_eq!(family.deaths(&spawner(&[50, 51]), &spawner(&[50, 51])), 0);
        assert_eq!(family.deaths(&spawner(&[50, 51]), &spawner(&[])), 0);
        let mut without_spawner = spawner(&[]);
        without_spawner.retain(|process| process.pid != 5);
        assert_eq!(family.deaths(&spawner(&[]), &without_spawner), 1);
    }

    #[test]
    fn workers_that_are_given_their_connections_serve_too() {
        let cluster = |workers: &[i32]| {
            let mut all = vec![process(1, 0, true, 0.1)];
            all.extend(workers.iter().map(|pid| process(*pid, 1, false, 0.1)));
            all
        };
        let mut family = Family::of(&cluster(&[2, 3]));
        assert_eq!(family.deaths(&cluster(&[2, 3]), &cluster(&[3, 4])), 1);
        // A child that was never there for a whole slice may be anything.
        assert_eq!(family.deaths(&cluster(&[3, 4, 5]), &cluster(&[3, 4])), 0);
    }

    #[test]
    fn where_nobody_is_seen_to_listen_everyone_who_stays_counts() {
        let hidden = |pids: &[i32]| -> Vec<Process> {
            pids.iter().map(|pid| process(*pid, 9, false, 0.1)).collect()
        };
        let mut family = Family::of(&hidden(&[1, 2]));
        assert_eq!(family.deaths(&hidden(&[1, 2]), &hidden(&[1])), 1);
    }
}
