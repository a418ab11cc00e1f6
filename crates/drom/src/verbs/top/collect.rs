//! Takes the readings: the machine, all processes, Drom's servers with the Perl line of each worker
//! that runs one. A [`Collector`] keeps what the next reading needs; it changes nothing that it
//! looks at.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    io,
    sync::Arc,
    time::UNIX_EPOCH,
};

use drom_observe::{
    anatomy::Anatomy,
    clock, core_count,
    mounts::mounts,
    scan::{Scanner, Seen, users},
    vitals::{CpuTimes, Interface, LoadAverage, MachineMemory, interfaces, uptime_s},
};
use drom_profile::{Clock, Error, Sampler, profile::Frame};
use drom_serve::scoreboard::{
    State,
    view::{self, NoView, View, Window},
};

use super::{
    choose::Choice,
    mask,
    model::{Machine, Place, Process, Running, Server, Snapshot, Traffic, Worker},
    page::{self, Page, Parts},
};

/// Processes besides the shown ones whose memory is looked at in a refresh: at most some 2 ms.
const IN_TURN: usize = 8;
/// And so many workers, wherever they are in the list.
const WORKERS_MAX: usize = 64;
/// Whose memory is looked at although it may not be shown.
const LOOKED_AT_MAX: usize = 4096;

/// What one refresh is to bring.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub choice: &'a Choice,
    /// The rows that can be seen: from, and how many.
    pub rows: (usize, usize),
    /// There will be no other refresh that could look at the rest.
    pub is_single: bool,
}

pub struct Collector {
    scanner: Scanner,
    users: BTreeMap<u32, Arc<str>>,
    commands: HashMap<i32, Command>,
    /// By the master, and when that began.
    windows: HashMap<(i32, u64), Window>,
    samplers: HashMap<(i32, u64), Option<Sampler>>,
    taken_ns: u64,
    cpu: Option<CpuTimes>,
    network: Vec<Interface>,
}

/// A masked command line and what it was made of.
struct Command {
    arguments: Arc<[String]>,
    name: Arc<str>,
    text: Arc<str>,
}

impl Collector {
    /// The first readings: figures of time need another.
    ///
    /// # Errors
    /// That there is no `/proc`.
    pub fn new() -> io::Result<Self> {
        let mut scanner = Scanner::new()?;
        scanner.scan();
        Ok(Self {
            scanner,
            users: users().into_iter().map(|(uid, name)| (uid, name.into())).collect(),
            commands: HashMap::new(),
            windows: HashMap::new(),
            samplers: HashMap::new(),
            taken_ns: clock::monotonic_ns(),
            cpu: CpuTimes::now(),
            network: interfaces(),
        })
    }

    /// With all processes: what the wish says of them is only whose memory is looked at.
    pub fn take(&mut self, wish: Wish<'_>) -> Snapshot {
        let now_ns = clock::monotonic_ns();
        let interval_s = now_ns.saturating_sub(self.taken_ns).max(1) as f64 / 1e9;
        self.taken_ns = now_ns;
        let machine = self.machine(interval_s);
        let mut seen = self.scanner.scan();
        self.forget_the_dead(&seen);
        let boards = self.boards(&seen);
        self.look(&mut seen, &boards, wish);
        let servers = boards.into_iter().map(|board| self.server(board, &seen)).collect();
        let running_count = seen.iter().filter(|seen| seen.state == 'R').count();
        Snapshot {
            time_s: clock::wall_at(now_ns)
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            interval_s,
            machine,
            servers,
            process_count: seen.len(),
            running_count,
            processes: self.processes(&seen),
        }
    }

    fn machine(&mut self, interval_s: f64) -> Machine {
        let before = self.cpu;
        self.cpu = CpuTimes::now();
        let network = std::mem::replace(&mut self.network, interfaces());
        Machine {
            uptime_s: uptime_s(),
            cores: core_count(),
            load: LoadAverage::now(),
            cpu: self.cpu.zip(before).and_then(|(now, before)| now.shares_since(before)),
            memory: MachineMemory::now(),
            mounts: mounts(),
            network: traffic(&network, &self.network, interval_s),
        }
    }

    /// The memory of what is shown, and of workers.
    fn look(&mut self, seen: &mut [Seen], boards: &[Board], wish: Wish<'_>) {
        let listed = wish.choice.of(self.processes(seen));
        let (from, rows) = match wish.is_single && wish.choice.sort.is_of_memory() {
            true => (0, LOOKED_AT_MAX),
            false => wish.rows,
        };
        let most = if wish.is_single { LOOKED_AT_MAX } else { WORKERS_MAX };
        let workers = workers(boards).into_iter().take(most);
        let mut shown: Vec<i32> =
            listed.iter().skip(from).take(rows.min(LOOKED_AT_MAX)).map(|p| p.pid).collect();
        shown.extend(workers.filter(|pid| *pid > 0));
        shown.sort_unstable();
        shown.dedup();
        self.scanner.look(seen, &shown, if wish.is_single { 0 } else { IN_TURN });
    }

    fn processes(&mut self, seen: &[Seen]) -> Vec<Process> {
        seen.iter().map(|seen| self.process(seen)).collect()
    }

    fn process(&mut self, seen: &Seen) -> Process {
        let by_number = || Arc::from(seen.uid.to_string());
        let user = Arc::clone(self.users.entry(seen.uid).or_insert_with(by_number));
        Process {
            pid: seen.pid,
            parent: seen.parent,
            user,
            state: seen.state,
            threads: seen.threads,
            cpu_percent: seen.cpu_percent,
            cpu_s: seen.cpu.as_secs_f64(),
            rss_bytes: seen.rss_bytes,
            pss_bytes: seen.memory.map(|memory| memory.pss_bytes),
            uss_bytes: seen.memory.map(|memory| memory.uss_bytes),
            growth_bytes: seen.growth_bytes,
            name: Arc::clone(&seen.name),
            command: self.command(seen),
            depth: 0,
            branch: String::new(),
        }
    }

    /// Made once of what does not change.
    fn command(&mut self, seen: &Seen) -> Arc<str> {
        if let Some(known) = self.commands.get(&seen.pid)
            && Arc::ptr_eq(&known.arguments, &seen.arguments)
            && known.name == seen.name
        {
            return Arc::clone(&known.text);
        }
        let text: Arc<str> = command_of(seen).into();
        let (arguments, name) = (Arc::clone(&seen.arguments), Arc::clone(&seen.name));
        self.commands.insert(seen.pid, Command { arguments, name, text: Arc::clone(&text) });
        text
    }

    fn forget_the_dead(&mut self, seen: &[Seen]) {
        let at = |pid: i32| seen.binary_search_by_key(&pid, |seen| seen.pid).ok();
        let lives = |(pid, start): &(i32, u64)| {
            at(*pid).is_some_and(|found| seen[found].start_ticks == *start)
        };
        self.commands.retain(|pid, _| at(*pid).is_some());
        self.windows.retain(|key, _| lives(key));
        self.samplers.retain(|key, _| lives(key));
    }

    // ---- servers -------------------------------------------------------------------------------

    fn boards(&mut self, seen: &[Seen]) -> Vec<Board> {
        let is_drom = |seen: &&Seen| seen.name.starts_with("drom") && !seen.arguments.is_empty();
        let all: BTreeMap<i32, &Seen> =
            seen.iter().filter(is_drom).map(|seen| (seen.pid, seen)).collect();
        let mut boards = Vec::new();
        for seen in all.values() {
            if self.has_master_above(seen, &all) {
                continue;
            }
            // Of others' processes only what looks like a master is worth a word.
            let serves = seen.arguments.iter().any(|word| word == "serve");
            let is_below = all.contains_key(&seen.parent);
            let board = self.board(seen);
            let is_told = |board: &Board| {
                !matches!(board.view, Err(NoView::Unreadable { .. })) || serves && !is_below
            };
            boards.extend(board.filter(is_told));
        }
        boards
    }

    /// Who descends from a master is none, and need not be looked into.
    fn has_master_above(&self, seen: &Seen, all: &BTreeMap<i32, &Seen>) -> bool {
        let parent = |seen: &Seen| all.get(&seen.parent).copied();
        let mut above = std::iter::successors(parent(seen), |seen| parent(seen)).take(all.len());
        above.any(|above| self.windows.contains_key(&(above.pid, above.start_ticks)))
    }

    /// Workers have their master's name, but not its board.
    fn board(&mut self, master: &Seen) -> Option<Board> {
        let key = (master.pid, master.start_ticks);
        let window = match self.windows.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => match Window::open(master.pid) {
                Ok(None) => return None,
                Ok(Some(window)) => place.insert(window),
                Err(error) => return Some(Board { pid: master.pid, view: Err(error) }),
            },
        };
        let view = window.look(master.pid);
        Some(Board { pid: master.pid, view })
    }

    fn server(&mut self, board: Board, seen: &[Seen]) -> Server {
        let now_ns = clock::monotonic_ns();
        let view = match board.view {
            Ok(view) => view,
            Err(error) => {
                let error = Some(error.to_string());
                return Server { pid: board.pid, error, ..Server::default() };
            }
        };
        let of = |pid: i32| seen.iter().find(|seen| seen.pid == pid);
        let workers: Vec<Worker> =
            view.workers.iter().map(|line| self.worker(line, of(line.pid), now_ns)).collect();
        Server {
            pid: board.pid,
            uptime_s: Some(now_ns.saturating_sub(view.started_ns) as f64 / 1e9),
            generation: workers.iter().map(|worker| worker.generation).max().unwrap_or(0),
            answers: workers.iter().map(|worker| worker.answers).sum(),
            answered_bytes: workers.iter().map(|worker| worker.answered_bytes).sum(),
            cgi_pids: view.cgi,
            workers,
            error: None,
        }
    }

    fn worker(&mut self, line: &view::Worker, seen: Option<&Seen>, now_ns: u64) -> Worker {
        let memory = seen.and_then(|seen| seen.memory);
        let uss_bytes = memory.map(|memory| memory.uss_bytes);
        let growth_bytes = uss_bytes
            .zip(line.new_uss_bytes)
            .map(|(now, new)| now.cast_signed().wrapping_sub(new.cast_signed()));
        let per_request = growth_bytes
            .filter(|_| line.perl_requests > 0)
            .map(|b| b as f64 / line.perl_requests as f64);
        Worker {
            slot: line.slot,
            pid: line.pid,
            state: state(line),
            generation: line.generation,
            is_primary: line.is_primary,
            connections: line.connections,
            answers: line.answers,
            perl_requests: line.perl_requests,
            answered_bytes: line.answered_bytes,
            cpu_percent: seen.and_then(|seen| seen.cpu_percent),
            rss_bytes: seen.map(|seen| seen.rss_bytes),
            pss_bytes: memory.map(|memory| memory.pss_bytes),
            uss_bytes,
            growth_bytes,
            growth_bytes_per_request: per_request,
            running: line.running.as_ref().map(|run| Running {
                request: mask::request(&run.request),
                client: run.client.to_string(),
                elapsed_s: now_ns.saturating_sub(run.since_ns) as f64 / 1e9,
                perl: seen.and_then(|seen| self.place(seen)),
            }),
        }
    }

    fn place(&mut self, seen: &Seen) -> Option<Place> {
        innermost(&self.stack(seen)?)
    }

    /// Who cannot be looked into is not asked again, but who has just begun, or is another program
    /// by now.
    fn stack(&mut self, seen: &Seen) -> Option<Vec<Frame>> {
        let key = (seen.pid, seen.start_ticks);
        let sampler = match self.samplers.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => match Sampler::attach(seen.pid, Clock::Wall) {
                Err(Error::NoInterpreter { .. }) => return None,
                attached => place.insert(attached.ok()),
            },
        };
        let stack = sampler.as_mut()?.now().ok();
        if stack.is_none() {
            self.samplers.remove(&key);
        }
        stack
    }

    // ---- one process ---------------------------------------------------------------------------

    /// `None`: there is no such process (any more).
    pub fn page(&mut self, pid: i32) -> Option<Page> {
        let mut seen = self.scanner.scan();
        self.forget_the_dead(&seen);
        self.scanner.look(&mut seen, &[pid], 0);
        let boards = self.boards(&seen);
        let own = seen.iter().find(|seen| seen.pid == pid)?;
        let anatomy = Anatomy::of(pid).ok()?;
        let workers = boards.into_iter().flat_map(|board| self.server(board, &seen).workers);
        let running = workers.collect::<Vec<_>>().into_iter().find(|worker| worker.pid == pid);
        Some(Page {
            process: self.process(own),
            running: running.and_then(|worker| worker.running),
            perl_stack: self.stack(own).map_or_else(Vec::new, |stack| page::calls(&stack)),
            anatomy: Parts(anatomy),
        })
    }
}

/// Processes of workers, those first that run Perl.
fn workers(boards: &[Board]) -> Vec<i32> {
    let views = boards.iter().filter_map(|board| board.view.as_ref().ok());
    let mut workers: Vec<&view::Worker> = views.flat_map(|view| &view.workers).collect();
    workers.sort_by_key(|worker| worker.running.is_none());
    workers.into_iter().map(|worker| worker.pid).collect()
}

/// A master's, or why it cannot be seen.
struct Board {
    pid: i32,
    view: Result<View, NoView>,
}

fn state(line: &view::Worker) -> &'static str {
    match line.state {
        State::Ready if line.running.is_some() => "perl",
        State::Ready => "idle",
        State::Starting => "starting",
        State::Draining => "draining",
        State::Dying => "dying",
        State::Free => "free",
    }
}

fn command_of(seen: &Seen) -> String {
    match seen.arguments.is_empty() {
        true => drom_report::format::plain(&format!("[{}]", seen.name)),
        false => mask::command(&seen.arguments),
    }
}

/// The statement that runs, and the sub it is in.
pub fn innermost(stack: &[Frame]) -> Option<Place> {
    let frame = stack.iter().rev().find(|frame| frame.line > 0 && frame.kind.is_code())?;
    let (file, sub) = (frame.file.to_string(), frame.name.to_string());
    Some(Place { file, line: frame.line, sub })
}

fn traffic(before: &[Interface], now: &[Interface], interval_s: f64) -> Vec<Traffic> {
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / interval_s;
    let of = |now: &Interface| {
        let before = before.iter().find(|before| before.name == now.name)?;
        Some(Traffic {
            interface: now.name.clone(),
            received_bytes_per_s: rate(now.received_bytes, before.received_bytes),
            sent_bytes_per_s: rate(now.sent_bytes, before.sent_bytes),
        })
    };
    now.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use drom_profile::profile::Kind;

    use super::*;

    #[test]
    fn the_innermost_statement_is_no_operator() {
        let frame =
            |name: &str, kind, line| Frame { name: name.into(), kind, file: "a.pl".into(), line };
        let stack = [
            frame("main", Kind::Main, 3),
            frame("main::wait", Kind::Sub, 7),
            frame("CORE:sleep", Kind::Op, 0),
        ];
        let place = innermost(&stack).expect("a statement");
        assert_eq!((&*place.file, place.line, &*place.sub), ("a.pl", 7, "main::wait"));
        assert_eq!(innermost(&stack[2..]), None);
    }

    #[test]
    fn rates_are_of_interfaces_that_were_there_before() {
        let interface = |name: &str, received_bytes| Interface {
            name: name.to_owned(),
            received_bytes,
            sent_bytes: 0,
        };
        let found = traffic(&[interface("a", 10)], &[interface("a", 30), interface("b", 9)], 0.5);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].received_bytes_per_s, found[0].sent_bytes_per_s), (40.0, 0.0));
    }

    #[test]
    fn this_process_is_among_those_that_are_seen() {
        let mut collector = Collector::new().expect("/proc");
        let choice = Choice::default();
        let wish = Wish { choice: &choice, rows: (0, LOOKED_AT_MAX), is_single: true };
        let snapshot = collector.take(wish);
        let own = std::process::id() as i32;
        let own = snapshot.processes.iter().find(|process| process.pid == own).expect("ourselves");
        assert!(own.uss_bytes > Some(0) && own.cpu_percent.is_some(), "{own:?}");
        assert!(snapshot.machine.memory.is_some() && snapshot.process_count > 0);
    }
}
