//! The master: owns the listening sockets, the scoreboard and the supervision; never runs Perl.
//!
//! It survives everything below it: templates, workers and the spawner are replaced when they end. A reload
//! starts a new template beside the old one, and only when it is ready do the old workers drain.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
};

use drom_observe::clock;

use crate::{
    cgi,
    config::{Config, LogLevel},
    lost,
    pid_file::{PidFile, Refusal},
    scoreboard::{Scoreboard, State},
    site::{self, Site},
    sys,
    template::{self, Identity, Inherited, Message},
};

/// Reads the configuration, at the start and at every reload. The error is for the operator.
pub type ReadConfig = Box<dyn FnMut() -> Result<Config, String>>;

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error("{0}")]
    Config(String),
    #[error("cannot listen on {0}: {1}{2}")]
    Listen(SocketAddr, std::io::Error, &'static str),
    #[error("{0}")]
    Load(String),
    #[error("cannot open the log {0}: {1}")]
    Log(PathBuf, std::io::Error),
    #[error("cannot read the TypesConfig {0}: {1}")]
    Types(PathBuf, std::io::Error),
    #[error("cannot write the PidFile {0}: {1}")]
    PidFile(PathBuf, std::io::Error),
    #[error("process {1} runs already and has the PidFile {0}: stop it, or name another PidFile")]
    Running(PathBuf, u32),
    #[error("there is no user or group called {0} (User, Group)")]
    Identity(String),
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
}

/// The board is made once; a reload cannot have more workers than this.
const SLOTS_MIN: usize = 256;
const TICK_MS: i32 = 100;
/// A worker that ends sooner than this after its start ended quickly.
const QUICK_NS: u64 = 1_000_000_000;
/// A spawner that cannot live is not started in every turn of the loop.
const SPAWNER_NS: u64 = 200_000_000;
/// After so many quick ends in a row new workers wait a second each.
const QUICK_MAX: u32 = 10;
const STOP_NS: u64 = 40_000_000_000;
/// `timeout` and service managers tell the master, and then its whole group: that is one order.
const SAME_SIGNAL_NS: u64 = 500_000_000;
/// After SIGTERM a CGI child that nobody waits for has this long before SIGKILL.
const CGI_KILL_NS: u64 = 1_000_000_000;

struct Generation {
    number: u32,
    site: &'static Site,
    template: i32,
    socket: OwnedFd,
    ready: bool,
    workers: Vec<Worker>,
}

struct Worker {
    slot: usize,
    pid: i32,
    primary: bool,
    started_ns: u64,
    drained: bool,
}

struct Master {
    read_config: ReadConfig,
    board: Scoreboard,
    listeners: Vec<(SocketAddr, TcpListener)>,
    inbox: (OwnedFd, OwnedFd),
    overflow: (OwnedFd, OwnedFd),
    cgi_jobs: (OwnedFd, OwnedFd),
    lifeline: (OwnedFd, Option<OwnedFd>),
    alarm: OwnedFd,
    signals: OwnedFd,
    /// 0 while there is none.
    spawner: i32,
    /// CGI children that were told to end, and when they are made to.
    doomed: Vec<(i32, u64)>,
    spawner_started_ns: u64,
    generations: Vec<Generation>,
    next_generation: u32,
    quick_ends: u32,
    hold_until_ns: u64,
    shrunk_ns: u64,
    stopping_ns: u64,
    announced: bool,
    pid_file: Option<PidFile>,
}

/// Serves until told to stop. `announce` is called once, when the server accepts.
pub fn run(
    mut read_config: ReadConfig,
    announce: &mut dyn FnMut(&[SocketAddr]),
) -> Result<(), ServeError> {
    let config = read_config().map_err(ServeError::Config)?;
    let mut master = Master::new(config, read_config)?;
    master.await_first_template()?;
    while !master.is_over() {
        master.step();
        if !master.announced && master.has_ready_worker() {
            master.announced = true;
            let addresses: Vec<_> = master.listeners.iter().map(|(a, _)| *a).collect();
            announce(&addresses);
        }
    }
    master.finish();
    Ok(())
}

impl Master {
    fn new(config: Config, read_config: ReadConfig) -> Result<Self, ServeError> {
        let system = |what| move |e| ServeError::System(what, e);
        let slots = (config.server.max_request_workers as usize).max(SLOTS_MIN);
        let board = Scoreboard::new(slots).map_err(system("no memory for the scoreboard"))?;
        let mut listeners = Vec::new();
        for address in &config.listen {
            listeners.push(listen(*address, &config)?);
        }
        let pair = |nonblocking| sys::message_pair(nonblocking).map_err(system("no socket pair"));
        let lifeline = sys::pipe(0).map_err(system("no pipe"))?;
        let signals = sys::signal_fd(&[
            libc::SIGCHLD,
            libc::SIGHUP,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGUSR1,
            libc::SIGQUIT,
        ]);
        let pid_file = config.server.pid_file.as_deref().map(write_pid_file).transpose()?;
        let mut master = Self {
            read_config,
            board,
            listeners,
            inbox: pair(true)?,
            overflow: pair(true)?,
            cgi_jobs: pair(false)?,
            lifeline: (lifeline.0, Some(lifeline.1)),
            alarm: sys::event_fd().map_err(system("no event descriptor"))?,
            signals: signals.map_err(system("no signal descriptor"))?,
            spawner: 0,
            doomed: Vec::new(),
            spawner_started_ns: 0,
            generations: Vec::new(),
            next_generation: 1,
            quick_ends: 0,
            hold_until_ns: 0,
            shrunk_ns: 0,
            stopping_ns: 0,
            announced: false,
            pid_file,
        };
        // SAFETY: no handler. A log over the limit of a file's size is not the end of the server.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        sys::scratch_folder();
        sys::raise_descriptor_limit();
        sys::adopt_orphans();
        // The error log is opened for the generation, and scripts of the spawner write there too.
        master.start_generation(config.clone())?;
        master.start_spawner(&config)?;
        Ok(master)
    }

    // ---- starting processes --------------------------------------------------------------------

    fn start_spawner(&mut self, config: &Config) -> Result<(), ServeError> {
        self.spawner_started_ns = clock::monotonic_ns();
        let user = identity(config)?;
        let setup = || -> std::io::Result<_> {
            Ok(cgi::spawner::Setup {
                board: self.board,
                jobs: self.cgi_jobs.0.try_clone()?,
                lifeline: self.lifeline.0.try_clone()?,
                preload: config.server.cgi_preload.clone(),
                reuse: config.server.cgi_reuse,
                ahead: config.server.cgi_wanted,
                constant: cgi::constant::Constant::of(config),
            })
        };
        let setup =
            setup().map_err(|e| ServeError::System("no descriptors for the CGI spawner", e))?;
        // SAFETY: the master has one thread.
        match unsafe { sys::fork() } {
            Ok(Some(pid)) => self.spawner = pid,
            Ok(None) => {
                self.forget_as_child();
                sys::reset_signals();
                sys::close_all_except(&[setup.jobs.as_raw_fd(), setup.lifeline.as_raw_fd()]);
                // SAFETY: the master decides what a terminal's signals mean.
                unsafe {
                    libc::signal(libc::SIGINT, libc::SIG_IGN);
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                    libc::signal(libc::SIGUSR1, libc::SIG_IGN);
                }
                let allowed = user.is_none_or(|u| sys::become_user(&u).is_ok());
                if allowed {
                    cgi::spawner::run(setup);
                }
                sys::exit_now(0);
            }
            Err(e) => return Err(ServeError::System("cannot fork the CGI spawner", e)),
        }
        Ok(())
    }

    /// A child must not hold the master's end of the lifeline, nor its listeners' names.
    fn forget_as_child(&mut self) {
        self.lifeline.1 = None;
        self.generations.clear();
    }

    fn start_generation(&mut self, config: Config) -> Result<(), ServeError> {
        let user = identity(&config)?;
        let site = make_site(config)?;
        let (mine, theirs) =
            sys::message_pair(false).map_err(|e| ServeError::System("no socket pair", e))?;
        let inherited = Inherited {
            board: self.board,
            listeners: self.listeners.iter().map(|(_, l)| l.as_raw_fd()).collect(),
            inbox: (self.inbox.0.as_raw_fd(), self.inbox.1.as_raw_fd()),
            overflow: (self.overflow.0.as_raw_fd(), self.overflow.1.as_raw_fd()),
            cgi_jobs: self.cgi_jobs.1.as_raw_fd(),
            lifeline: self.lifeline.0.as_raw_fd(),
            alarm: self.alarm.as_raw_fd(),
            master: std::process::id() as i32,
            user,
        };
        // SAFETY: the master has one thread.
        match unsafe { sys::fork() } {
            Ok(Some(pid)) => self.generations.push(Generation {
                number: self.next_generation,
                site,
                template: pid,
                socket: mine,
                ready: false,
                workers: Vec::new(),
            }),
            Ok(None) => {
                drop(mine);
                self.forget_as_child();
                sys::exit_now(template::run(site, inherited, theirs));
            }
            Err(e) => return Err(ServeError::System("cannot fork a template process", e)),
        }
        self.next_generation += 1;
        Ok(())
    }

    fn await_first_template(&mut self) -> Result<(), ServeError> {
        let socket = self.generations[0].socket.as_raw_fd();
        match Message::receive(socket) {
            Some(Message::Ready) => {
                self.generations[0].ready = true;
                self.maintain();
                Ok(())
            }
            Some(Message::Failed(text)) => {
                self.finish();
                Err(ServeError::Load(text))
            }
            _ => {
                self.finish();
                Err(ServeError::Load("the process that loads the Perl code ended".to_owned()))
            }
        }
    }

    fn spawn_worker(&mut self, primary: bool) {
        let slot = (0..self.board.slots.len())
            .find(|&s| self.board.slots[s].state() == State::Free && !self.owns(s));
        let Some(slot) = slot else { return };
        let Some(generation) = self.generations.last_mut().filter(|g| g.ready) else { return };
        let line = &self.board.slots[slot];
        line.clear();
        line.set_state(State::Starting);
        line.generation.store(generation.number, Relaxed);
        line.primary.store(u32::from(primary), Relaxed);
        let asked =
            Message::Fork { slot: slot as u32, primary }.send(generation.socket.as_raw_fd());
        if asked.is_err() {
            line.clear();
            return; // the template is gone; its end is noticed and a new one started
        }
        let started_ns = clock::monotonic_ns();
        generation.workers.push(Worker { slot, pid: 0, primary, started_ns, drained: false });
    }

    fn owns(&self, slot: usize) -> bool {
        self.generations.iter().any(|g| g.workers.iter().any(|w| w.slot == slot))
    }

    // ---- the loop ------------------------------------------------------------------------------

    fn step(&mut self) {
        let mut fds = vec![self.signals.as_fd(), self.alarm.as_fd()];
        fds.extend(self.generations.iter().map(|g| g.socket.as_fd()));
        let ready = sys::poll(&fds, TICK_MS);
        if ready[1] {
            sys::unkick(self.alarm.as_raw_fd());
        }
        for number in (0..self.generations.len()).rev() {
            if ready[2 + number] {
                self.hear(number);
            }
        }
        if ready[0] {
            while let Some(signal) = sys::next_signal(self.signals.as_raw_fd()) {
                self.signal(signal);
            }
        }
        self.retire_old();
        self.keep_spawner();
        self.maintain();
        self.kill_doomed();
    }

    /// Jobs wait in their socket until there is a spawner again.
    fn keep_spawner(&mut self) {
        let soon = clock::monotonic_ns() < self.spawner_started_ns + SPAWNER_NS;
        if self.spawner != 0 || self.stopping_ns != 0 || soon {
            return;
        }
        let config = self.generations.last().map(|g| g.site.config.as_ref().clone());
        if let Some(Err(e)) = config.map(|c| self.start_spawner(&c)) {
            self.log_crit(&format!("cannot start a CGI spawner: {e}"));
        }
    }

    fn log_crit(&self, text: &str) {
        match self.generations.last() {
            Some(generation) => generation.site.log_error(LogLevel::Crit, None, "core", text),
            None => site::write_stderr(&format!("drom: {text}")),
        }
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.reap(),
            libc::SIGHUP | libc::SIGUSR1 => self.reload(),
            _ if self.stopping_ns == 0 => self.stop(),
            _ if clock::monotonic_ns() < self.stopping_ns + SAME_SIGNAL_NS => {}
            _ => self.kill_all(),
        }
    }

    /// One message of a template.
    fn hear(&mut self, number: usize) {
        let socket = self.generations[number].socket.as_raw_fd();
        match Message::receive(socket) {
            Some(Message::Ready) => self.generation_ready(number),
            Some(Message::Failed(text)) => self.generation_failed(number, &text),
            Some(Message::Started { slot, pid }) => {
                let workers = &mut self.generations[number].workers;
                if let Some(worker) = workers.iter_mut().find(|w| w.slot == slot as usize) {
                    worker.pid = pid;
                    if worker.drained {
                        sys::kill(pid, libc::SIGUSR2);
                    }
                }
            }
            Some(Message::Ended { slot, pid, status }) => {
                self.worker_ended(number, slot, pid, status)
            }
            Some(Message::Fork { .. }) => {}
            None => self.template_gone(number),
        }
    }

    fn worker_ended(&mut self, number: usize, slot: u32, pid: i32, status: i32) {
        let slot = slot as usize;
        let generation = &mut self.generations[number];
        let found = generation.workers.iter().position(|w| w.slot == slot);
        let worker = found.map(|i| generation.workers.remove(i));
        let line = &self.board.slots[slot];
        // Told to drain before it could hear that: it had nothing yet.
        let left_early = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGUSR2;
        if status != 0 && !left_early {
            log_death(generation.site, line, pid, status);
            let quick = worker.is_some_and(|w| clock::monotonic_ns() - w.started_ns < QUICK_NS);
            self.quick_ends = if quick { self.quick_ends + 1 } else { 0 };
            if self.quick_ends >= QUICK_MAX {
                self.hold_until_ns = clock::monotonic_ns() + QUICK_NS;
            }
        }
        lost::log(generation.site, line, pid as u32);
        line.clear();
        self.stop_cgi_of(slot);
    }

    /// Nobody reads any more what the children of a worker that ended print.
    fn stop_cgi_of(&mut self, slot: usize) {
        let kill_ns = clock::monotonic_ns() + CGI_KILL_NS;
        for cgi in self.board.cgi {
            let Some(child) = cgi.abandon(slot) else { continue };
            if child > 0 {
                sys::kill(-child, libc::SIGTERM);
                self.doomed.push((child, kill_ns));
            }
            cgi.free();
        }
    }

    /// Those that did not take SIGTERM to heart.
    fn kill_doomed(&mut self) {
        let now_ns = clock::monotonic_ns();
        for &(child, _) in self.doomed.iter().filter(|(_, kill_ns)| *kill_ns <= now_ns) {
            sys::kill(-child, libc::SIGKILL);
        }
        self.doomed.retain(|(_, kill_ns)| *kill_ns > now_ns);
    }

    /// A template that ended although nobody asked it to.
    fn template_gone(&mut self, number: usize) {
        let generation = self.generations.remove(number);
        let is_last = number == self.generations.len();
        for worker in &generation.workers {
            self.board.slots[worker.slot].clear();
            if worker.pid > 0 {
                sys::kill(worker.pid, libc::SIGUSR2);
            }
        }
        if !is_last || self.stopping_ns != 0 {
            return;
        }
        let text = "the template process ended; its workers are drained and a new one is started";
        generation.site.log_error(LogLevel::Crit, None, "core", text);
        self.reload();
    }

    fn reap(&mut self) {
        while let Some((pid, status)) = sys::reap() {
            self.board.forget_child(pid);
            if pid != self.spawner {
                continue;
            }
            self.spawner = 0;
            if self.stopping_ns == 0 {
                let how = sys::how_it_ended(status);
                self.log_crit(&format!("the CGI spawner {how}; a new one is started"));
            }
        }
    }

    // ---- reload --------------------------------------------------------------------------------

    fn reload(&mut self) {
        if self.stopping_ns != 0 || self.generations.last().is_some_and(|g| !g.ready) {
            return; // the one that is loading will see what is there now
        }
        match (self.read_config)() {
            Ok(config) => {
                if let Err(e) = self.start_generation(config) {
                    self.note_reload(&format!("failed: {e}"));
                }
            }
            Err(text) => self.note_reload(&format!("failed: {text}")),
        }
    }

    fn generation_ready(&mut self, number: usize) {
        self.generations[number].ready = true;
        self.quick_ends = 0;
        self.replace_spawner(number);
        self.note_reload("done");
    }

    /// The new one has the new error log, `User` and `DromCGIPreload`. The old one may be started a
    /// moment ago and not know the signal yet: that ends it as well, before it took a job.
    fn replace_spawner(&mut self, number: usize) {
        let config = self.generations[number].site.config.as_ref().clone();
        let old = std::mem::take(&mut self.spawner);
        match self.start_spawner(&config) {
            Ok(()) if old > 0 => sys::kill(old, cgi::spawner::RETIRE),
            Ok(()) => {}
            Err(e) => {
                self.spawner = old;
                self.log_crit(&format!("cannot start a CGI spawner: {e}"));
            }
        }
    }

    fn generation_failed(&mut self, number: usize, text: &str) {
        self.generations.remove(number);
        self.note_reload(&format!("failed: {text}"));
    }

    /// Old workers drain once the new generation has somebody who accepts.
    fn retire_old(&mut self) {
        let Some(current) = self.generations.last().filter(|g| g.ready) else { return };
        let number = current.number;
        let accepts = current
            .workers
            .iter()
            .any(|w| w.primary && self.board.slots[w.slot].state() == State::Ready);
        if !accepts {
            return;
        }
        for generation in self.generations.iter_mut().filter(|g| g.number != number) {
            generation.workers.iter_mut().for_each(drain);
        }
        self.generations.retain(|g| g.number == number || !g.workers.is_empty());
    }

    fn note_reload(&self, outcome: &str) {
        let level = if outcome == "done" { LogLevel::Notice } else { LogLevel::Error };
        if let Some(generation) = self.generations.first() {
            let text = match outcome {
                "done" => "reload: the new code is loaded; old workers finish".to_owned(),
                _ => format!("reload {outcome}; the old code keeps serving"),
            };
            let line = site::error_line(level, None, "core", &text);
            site::write_stderr(&line);
            let _ = generation;
        }
        if let Some(path) = self.status_file() {
            let text = format!("{} {outcome}\n", clock::monotonic_ns());
            // Only `--reload` waits for it, and says so when it never comes.
            let _ = std::fs::write(path, text);
        }
    }

    fn status_file(&self) -> Option<PathBuf> {
        self.pid_file.as_ref().map(|file| reload_status_file(file.path()))
    }

    // ---- how many workers ----------------------------------------------------------------------

    fn maintain(&mut self) {
        if self.stopping_ns != 0 || clock::monotonic_ns() < self.hold_until_ns {
            return;
        }
        let Some(generation) = self.generations.last().filter(|g| g.ready) else { return };
        let settings = &generation.site.config.server;
        let (min_spare, max_spare) = (settings.min_spare as usize, settings.max_spare as usize);
        let (start, most) =
            (settings.start_servers as usize, settings.max_request_workers as usize);
        let most = most.clamp(1, self.board.slots.len());
        let primaries = crate::primaries(start.min(most));
        let state = |w: &Worker| self.board.slots[w.slot].state();
        let alive: Vec<&Worker> = generation
            .workers
            .iter()
            .filter(|w| !w.drained && matches!(state(w), State::Ready | State::Starting))
            .collect();
        let primary = alive.iter().filter(|w| w.primary).count();
        let idle = alive
            .iter()
            .filter(|w| state(w) == State::Starting || self.board.slots[w.slot].is_idle())
            .count();
        let total = alive.len();
        let fresh = generation.workers.is_empty();
        for _ in primary..primaries {
            self.spawn_worker(true);
        }
        let room = most.saturating_sub(total + primaries - primary.min(primaries));
        let want = if fresh {
            start.saturating_sub(primaries)
        } else {
            min_spare.saturating_sub(idle + primaries.saturating_sub(primary))
        };
        for _ in 0..want.min(room) {
            self.spawn_worker(false);
        }
        if idle > max_spare.max(min_spare + 1).max(start) {
            self.shrink();
        }
    }

    /// One worker too many goes, one a second.
    fn shrink(&mut self) {
        let now_ns = clock::monotonic_ns();
        if now_ns < self.shrunk_ns + QUICK_NS {
            return;
        }
        self.shrunk_ns = now_ns;
        let board = self.board;
        let Some(generation) = self.generations.last_mut() else { return };
        let idle = |w: &&mut Worker| !w.primary && !w.drained && board.slots[w.slot].is_idle();
        if let Some(worker) = generation.workers.iter_mut().rev().find(idle) {
            drain(worker);
        }
    }

    fn has_ready_worker(&self) -> bool {
        self.board.slots.iter().any(|s| s.state() == State::Ready)
    }

    // ---- the end -------------------------------------------------------------------------------

    fn stop(&mut self) {
        self.stopping_ns = clock::monotonic_ns();
        self.listeners.clear();
        for generation in &mut self.generations {
            generation.workers.iter_mut().for_each(drain);
        }
    }

    fn kill_all(&mut self) {
        for worker in self.generations.iter().flat_map(|g| &g.workers) {
            if worker.pid > 0 {
                sys::kill(worker.pid, libc::SIGKILL);
            }
        }
    }

    fn is_over(&mut self) -> bool {
        if self.stopping_ns == 0 {
            return false;
        }
        if clock::monotonic_ns() > self.stopping_ns + STOP_NS {
            self.kill_all();
            return true;
        }
        self.generations.iter().all(|g| g.workers.is_empty())
    }

    /// Templates and the spawner end when their sockets do; waits for them, then makes sure.
    fn finish(&mut self) {
        self.stopping_ns = clock::monotonic_ns();
        let mut left: Vec<i32> = self.generations.iter().map(|g| g.template).collect();
        left.push(self.spawner);
        left.retain(|&pid| pid > 0);
        self.generations.clear();
        self.lifeline.1 = None;
        for round in 0..200 {
            while let Some((pid, _)) = sys::reap() {
                left.retain(|&l| l != pid);
            }
            if left.is_empty() {
                break;
            }
            if round == 150 {
                left.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL));
            }
            clock::sleep(std::time::Duration::from_millis(10));
        }
        end_orphans();
        if let Some(file) = &self.pid_file {
            // A file that somebody removed already is as good.
            let _ = std::fs::remove_file(reload_status_file(file.path()));
        }
    }
}

fn write_pid_file(path: &Path) -> Result<PidFile, ServeError> {
    PidFile::write(path).map_err(|refusal| match refusal {
        Refusal::Taken(pid) => ServeError::Running(path.to_owned(), pid),
        Refusal::Unwritable(e) => ServeError::PidFile(path.to_owned(), e),
    })
}

/// Where the master tells `drom serve --reload` how it went.
pub fn reload_status_file(pid_file: &std::path::Path) -> PathBuf {
    let mut name = pid_file.as_os_str().to_owned();
    name.push(".reload");
    PathBuf::from(name)
}

/// What scripts started and left behind came to this process, the subreaper. A program that means
/// to outlive the server makes itself a session of its own.
fn end_orphans() {
    for round in 0..60 {
        while sys::reap().is_some() {}
        let signal = match round {
            0 => libc::SIGTERM,
            1..50 => 0, // only looks who is there
            _ => libc::SIGKILL,
        };
        if sys::kill_family(signal) == 0 {
            return;
        }
        clock::sleep(std::time::Duration::from_millis(10));
    }
}

fn drain(worker: &mut Worker) {
    if !worker.drained {
        worker.drained = true;
        if worker.pid > 0 {
            sys::kill(worker.pid, libc::SIGUSR2);
        }
    }
}

fn log_death(site: &Site, line: &crate::scoreboard::Slot, pid: i32, status: i32) {
    let how = sys::how_it_ended(status);
    let (request, position) = (line.request.line(), line.position.line());
    let busy = line.perl_since_ns.load(Relaxed) != 0 || line.state() == State::Dying;
    let mut text = format!("worker {pid} {how}");
    if busy && !request.is_empty() {
        text += &format!(" while it answered \"{request}\"");
    }
    if !position.is_empty() {
        text += &format!(" at {position}");
    }
    site.log_error(LogLevel::Error, None, "core", &text);
}

fn listen(address: SocketAddr, config: &Config) -> Result<(SocketAddr, TcpListener), ServeError> {
    let every_v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
    let only_v6 = config.listen.contains(&every_v4);
    let backlog = config.server.listen_backlog;
    let listener = sys::listen(address, only_v6, backlog).map_err(|e| {
        let hint = match e.kind() {
            std::io::ErrorKind::AddrInUse => {
                "; another server uses it, or choose one with --listen"
            }
            std::io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need root, choose one with --listen"
            }
            _ => "",
        };
        ServeError::Listen(address, e, hint)
    })?;
    let address = listener.local_addr().unwrap_or(address);
    Ok((address, listener))
}

fn identity(config: &Config) -> Result<Option<Identity>, ServeError> {
    sys::identity(config.server.user.as_deref(), config.server.group.as_deref())
        .map_err(ServeError::Identity)
}

/// Opens the logs and derives what every request needs.
fn make_site(config: Config) -> Result<&'static Site, ServeError> {
    let site = site::make(config)?;
    Ok(Box::leak(Box::new(site)))
}
