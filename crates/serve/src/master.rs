//! The master: owns the listening sockets, the scoreboard and the supervision; never runs Perl.
//!
//! It survives everything below it: templates, workers and the spawner are replaced when they end. A
//! reload starts a new template beside the old one, and only when it is ready do the old workers
//! drain. When to load is decided in `loading`.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use drom_observe::clock;

use crate::{
    cgi,
    config::{Config, LogLevel, ServerTokens},
    generation::{Fixed, Generation, Worker},
    loading::{Loading, Step},
    lost, outcome,
    pid_file::{PidFile, Refusal},
    pressure::Pressure,
    scoreboard::{Scoreboard, Slot, State},
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
const TAKE_OVER_NS: u64 = 2_000_000_000;
const STOP_NS: u64 = 40_000_000_000;
/// `timeout` and service managers tell the master, and then its whole group: that is one order.
const SAME_SIGNAL_NS: u64 = 500_000_000;
/// After SIGTERM a CGI child that nobody waits for has this long before SIGKILL.
const CGI_KILL_NS: u64 = 1_000_000_000;

struct Master {
    read_config: ReadConfig,
    board: Scoreboard,
    /// For who looks on; nobody below the master has it.
    shown: Option<OwnedFd>,
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
    /// Those whose code is loaded; the last one is for new workers.
    generations: Vec<Generation>,
    /// The one whose code is being loaded.
    coming: Option<Generation>,
    loading: Loading,
    load_began_ns: u64,
    /// Who asked for it has not been told yet.
    loaded: Option<Loaded>,
    next_generation: u32,
    fixed: Fixed,
    quick_ends: u32,
    hold_until_ns: u64,
    shrunk_ns: u64,
    stopping_ns: u64,
    pressure: Pressure,
    announced: bool,
    /// Nobody serves, and that was said.
    deserted: bool,
    /// Why the server cannot begin to serve.
    failure: Option<ServeError>,
    pid_file: Option<PidFile>,
    outcomes: Option<outcome::Board>,
}

/// New code is loaded: whose request came then gets it once nobody takes any for the old code.
struct Loaded {
    began_ns: u64,
    ready_ns: u64,
    warnings: Vec<String>,
}

/// Serves until told to stop. `announce` is called once, when the server accepts.
pub fn run(
    mut read_config: ReadConfig,
    announce: &mut dyn FnMut(&[SocketAddr]),
) -> Result<(), ServeError> {
    let config = read_config().map_err(ServeError::Config)?;
    let mut master = Master::new(&config, read_config)?;
    let begun = master.begin(config);
    while begun.is_ok() && master.failure.is_none() && !master.is_over() {
        master.step();
        if !master.announced && master.has_ready_worker() {
            master.announced = true;
            let addresses: Vec<_> = master.listeners.iter().map(|(a, _)| *a).collect();
            announce(&addresses);
        }
    }
    master.finish();
    begun.and(master.failure.map_or(Ok(()), Err))
}

impl Master {
    fn new(config: &Config, read_config: ReadConfig) -> Result<Self, ServeError> {
        let system = |what| move |e| ServeError::System(what, e);
        let slots = (config.server.max_request_workers as usize).max(SLOTS_MIN);
        // A log over the limit of a file's size is not the end of the server, nor is its board.
        sys::set_signal(libc::SIGXFSZ, true);
        let (board, shown) =
            Scoreboard::new(slots).map_err(system("no memory for the scoreboard"))?;
        let mut listeners = Vec::new();
        for address in &config.listen {
            listeners.push(listen(*address, config)?);
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
        Ok(Self {
            read_config,
            board,
            shown,
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
            coming: None,
            loading: Loading::new(),
            load_began_ns: 0,
            loaded: None,
            next_generation: 1,
            fixed: Fixed::of(config, slots),
            quick_ends: 0,
            hold_until_ns: 0,
            shrunk_ns: 0,
            stopping_ns: 0,
            pressure: Pressure::default(),
            announced: false,
            deserted: false,
            failure: None,
            outcomes: pid_file.as_ref().map(|file| outcome::Board::new(file.path())),
            pid_file,
        })
    }

    fn begin(&mut self, config: Config) -> Result<(), ServeError> {
        sys::scratch_folder();
        sys::raise_descriptor_limit();
        sys::adopt_orphans();
        // Who asks for a reload is told when there is no room for the outcome.
        let _ = self.outcomes.as_mut().map(outcome::Board::prepare);
        self.load_began_ns = clock::monotonic_ns();
        self.loading.begin(self.load_began_ns);
        // The error log is opened for the generation, and scripts of the spawner write there too.
        self.start_generation(config.clone())?;
        self.start_spawner(&config)
    }

    // ---- starting processes --------------------------------------------------------------------

    fn start_spawner(&mut self, config: &Config) -> Result<(), ServeError> {
        self.spawner_started_ns = clock::monotonic_ns();
        let user = identity(config)?;
        let setup = || -> std::io::Result<_> {
            Ok(cgi::spawner::Setup {
                board: self.board,
                jobs: self.cgi_jobs.0.try_clone()?,
                to_jobs: self.cgi_jobs.1.try_clone()?,
                lifeline: self.lifeline.0.try_clone()?,
                log_level: config.server.log_level,
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
                sys::reset_signals_but(&sys::FOR_THE_MASTER);
                let ours = [&setup.jobs, &setup.to_jobs, &setup.lifeline];
                sys::close_all_except(&ours.map(AsRawFd::as_raw_fd));
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

    /// A child must not hold the master's end of the lifeline, nor its listeners' names, nor the
    /// file by which the master is known.
    fn forget_as_child(&mut self) {
        self.shown = None;
        self.lifeline.1 = None;
        self.generations.clear();
        self.coming = None;
    }

    fn start_generation(&mut self, config: Config) -> Result<(), ServeError> {
        let user = identity(&config)?;
        let (site, error_log) = site::make(config)?;
        let mut new = Generation::new(self.next_generation, Box::new(site), error_log);
        if self.loading.is_first() {
            new.take_over_log();
        }
        let (mine, theirs) =
            sys::message_pair(false).map_err(|e| ServeError::System("no socket pair", e))?;
        let (enough, stay) =
            sys::pipe(0).map_err(|e| ServeError::System("no pipe to the workers", e))?;
        let inherited = Inherited {
            board: self.board,
            listeners: self.listeners.iter().map(|(_, l)| l.as_raw_fd()).collect(),
            inbox: (self.inbox.0.as_raw_fd(), self.inbox.1.as_raw_fd()),
            overflow: (self.overflow.0.as_raw_fd(), self.overflow.1.as_raw_fd()),
            cgi_jobs: self.cgi_jobs.1.as_raw_fd(),
            lifeline: self.lifeline.0.as_raw_fd(),
            enough: enough.as_raw_fd(),
            alarm: self.alarm.as_raw_fd(),
            master: std::process::id() as i32,
            user,
        };
        // SAFETY: the master has one thread.
        match unsafe { sys::fork() } {
            Ok(Some(pid)) => {
                (new.template, new.socket, new.stay) = (pid, Some(mine), Some(stay));
            }
            Ok(None) => {
                drop((mine, stay));
                std::mem::forget(enough);
                self.forget_as_child();
                let status = template::run(Box::leak(new.site), new.error_log, inherited, theirs);
                sys::exit_now(status);
            }
            Err(e) => return Err(ServeError::System("cannot fork a template process", e)),
        }
        self.coming = Some(new);
        self.next_generation += 1;
        Ok(())
    }

    fn spawn_worker(&mut self, primary: bool) {
        let slot = (0..self.board.slots.len())
            .find(|&s| self.board.slots[s].state() == State::Free && !self.owns(s));
        let Some(slot) = slot else { return };
        let Some(generation) = self.generations.last_mut() else { return };
        let Some(socket) = &generation.socket else { return };
        let line = &self.board.slots[slot];
        line.clear();
        line.set_state(State::Starting);
        line.generation.store(generation.number, Relaxed);
        line.primary.store(u32::from(primary), Relaxed);
        let asked = Message::Fork { slot: slot as u32, primary }.send(socket.as_raw_fd());
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
        let all = self.generations.iter().chain(&self.coming);
        fds.extend(all.filter_map(|g| g.socket.as_ref()).map(|socket| socket.as_fd()));
        let ready = sys::poll(&fds, TICK_MS);
        if ready[1] {
            sys::unkick(self.alarm.as_raw_fd());
        }
        if ready[2..].contains(&true) {
            self.hear_all();
        }
        if ready[0] {
            while let Some(signal) = sys::next_signal(self.signals.as_raw_fd()) {
                self.signal(signal);
            }
        }
        self.look_after_templates();
        self.load_when_due();
        self.retire_old();
        self.tell_loaded_when_taken_over();
        self.keep_spawner();
        self.maintain();
        self.kill_doomed();
    }

    /// Every message of every template.
    fn hear_all(&mut self) {
        let all = self.generations.iter().chain(&self.coming);
        let numbers: Vec<u32> = all.map(|g| g.number).collect();
        for number in numbers {
            self.hear(number);
        }
    }

    fn generation(&mut self, number: u32) -> Option<&mut Generation> {
        self.generations.iter_mut().chain(&mut self.coming).find(|g| g.number == number)
    }

    /// Jobs wait in their socket until there is a spawner again.
    fn keep_spawner(&mut self) {
        let soon = clock::monotonic_ns() < self.spawner_started_ns + SPAWNER_NS;
        if self.spawner != 0 || self.stopping_ns != 0 || soon {
            return;
        }
        let latest = self.generations.last().or(self.coming.as_ref());
        let config = latest.map(|g| g.config().clone());
        if let Some(Err(e)) = config.map(|c| self.start_spawner(&c)) {
            self.log_crit(&format!("cannot start a CGI spawner: {e}"));
        }
    }

    fn log_crit(&self, text: &str) {
        self.log(LogLevel::Crit, text);
    }

    fn log(&self, level: LogLevel, text: &str) {
        match self.generations.iter().chain(&self.coming).last() {
            Some(generation) => generation.site.log_error(level, None, "core", text),
            None => log_always(level, text),
        }
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.reap(),
            libc::SIGHUP | libc::SIGUSR1 => self.ask_reload(),
            _ if self.stopping_ns == 0 => self.stop(signal),
            _ if clock::monotonic_ns() < self.stopping_ns + SAME_SIGNAL_NS => {}
            _ => self.kill_all(),
        }
    }

    fn hear(&mut self, number: u32) {
        while let Some(message) = self.generation(number).and_then(Generation::hear) {
            self.heard(number, message);
        }
    }

    /// One message of a template.
    fn heard(&mut self, number: u32, message: Message) {
        match message {
            Message::Ready { perl } => self.generation_ready(number, &perl),
            Message::Failed(text) => self.load_failed(&text),
            Message::Ended { slot, pid, status } => self.worker_ended(number, slot, pid, status),
            Message::Loads(what) => {
                self.generation(number).into_iter().for_each(|g| g.loads.clone_from(&what));
            }
            Message::Started { slot, pid } => {
                self.generation(number).into_iter().for_each(|g| g.worker_started(slot, pid));
            }
            Message::Fork { .. } | Message::Enough => {}
        }
    }

    fn worker_ended(&mut self, number: u32, slot: u32, pid: i32, status: i32) {
        let slot = slot as usize;
        let line = &self.board.slots[slot];
        let Some(generation) = self.generation(number) else { return };
        let found = generation.workers.iter().position(|w| w.slot == slot);
        let worker = found.map(|i| generation.workers.remove(i));
        // Told to drain before it could hear that: it had nothing yet.
        let left_early = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGUSR2;
        let failed = status != 0 && !left_early;
        if failed && pid > 0 {
            log_death(&generation.site, line, pid, status);
        }
        lost::log(&generation.site, line, pid as u32);
        if failed && pid == 0 {
            self.hold_until_ns = clock::monotonic_ns() + QUICK_NS; // it could not be forked
        } else if failed {
            self.note_end(worker.is_some_and(|worker| ended_quickly(&worker, line)));
        }
        line.clear();
        self.stop_cgi_of(slot);
    }

    /// Workers that cannot even begin are not started all the time.
    fn note_end(&mut self, quick: bool) {
        self.quick_ends = if quick { self.quick_ends + 1 } else { 0 };
        if self.quick_ends >= QUICK_MAX {
            self.hold_until_ns = clock::monotonic_ns() + QUICK_NS;
        }
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

    fn reap(&mut self) {
        while let Some((pid, status)) = sys::reap() {
            self.board.forget_child(pid);
            if pid == self.spawner {
                self.spawner_ended(status);
                continue;
            }
            let all = self.generations.iter().chain(&self.coming);
            let is_template = |g: &&Generation| g.template == pid;
            if let Some(number) = all.clone().find(is_template).map(|g| g.number) {
                self.template_ended(number, status);
                continue;
            }
            // Workers come to this process when their template has ended.
            let board = self.board;
            let found = all.clone().find_map(|g| Some((g.number, g.slot_of(pid, board)?)));
            if let Some((number, slot)) = found {
                self.worker_ended(number, slot as u32, pid, status);
            }
        }
    }

    fn spawner_ended(&mut self, status: i32) {
        self.spawner = 0;
        if self.stopping_ns == 0 {
            let how = sys::how_it_ended(status);
            self.log_crit(&format!("the CGI spawner {how}; a new one is started"));
        }
    }

    // ---- templates -----------------------------------------------------------------------------

    fn template_ended(&mut self, number: u32, status: i32) {
        self.hear(number); // what it said before
        let Some(generation) = self.generation(number) else { return };
        let pid = std::mem::take(&mut generation.template);
        generation.socket = None;
        let how = sys::how_it_ended(status);
        if self.stopping_ns != 0 {
            return;
        }
        if let Some(coming) = self.coming.as_ref().filter(|g| g.number == number) {
            let text = format!("the process that loads the Perl code {how}");
            self.load_failed(&during(&text, &coming.loads));
        } else if self.generations.last().is_some_and(|g| g.number == number) {
            let text = "its workers go on, and a new one is started";
            self.log_crit(&format!("the template process {pid} {how}; {text}"));
            self.loading.lose(clock::monotonic_ns());
        }
    }

    fn look_after_templates(&mut self) {
        let (now_ns, board) = (clock::monotonic_ns(), self.board);
        let mut missing = Vec::new();
        for generation in self.generations.iter_mut().chain(&mut self.coming) {
            generation.end_closed(now_ns);
            let slots = generation.missing(board, now_ns);
            missing.extend(slots.into_iter().map(|(slot, pid)| (generation.number, slot, pid)));
        }
        for (number, slot, pid) in missing {
            self.worker_ended(number, slot as u32, pid, 0);
        }
        self.note_desertion();
    }

    /// Nobody is left who could answer, or start somebody who could.
    fn note_desertion(&mut self) {
        let deserted = self.stopping_ns == 0
            && !self.loading.is_first()
            && self.generations.iter().all(|g| g.workers.is_empty())
            && !self.generations.last().is_some_and(Generation::has_template);
        if deserted && !self.deserted {
            let text = "no worker is left, and none can be started before the Perl code is loaded";
            self.log_crit(&format!("{text}: requests wait"));
        }
        self.deserted = deserted;
    }

    // ---- loading -------------------------------------------------------------------------------

    fn ask_reload(&mut self) {
        self.loading.ask();
        if let Some(Err(e)) = self.outcomes.as_mut().map(outcome::Board::prepare) {
            self.log_mute(&e);
        }
    }

    fn load_when_due(&mut self) {
        if self.stopping_ns != 0 || self.failure.is_some() {
            return;
        }
        match self.loading.step(clock::monotonic_ns()) {
            Step::Wait => {}
            Step::Begin => self.load(),
            Step::GiveUp(why) => {
                let text = self.coming.as_ref().map_or(String::new(), |g| during(&why, &g.loads));
                self.kill_coming();
                self.load_failed(&text);
            }
        }
    }

    fn load(&mut self) {
        self.load_began_ns = clock::monotonic_ns();
        self.loading.begin(self.load_began_ns);
        let read = (self.read_config)().map_err(ServeError::Config);
        if let Err(e) = read.and_then(|config| self.start_generation(config)) {
            self.load_failed(&e.to_string());
        }
    }

    /// With whatever it started meanwhile.
    fn kill_coming(&mut self) {
        if let Some(coming) = self.coming.take().filter(|g| g.template != 0) {
            sys::kill_tree(coming.template, libc::SIGKILL);
        }
    }

    fn load_failed(&mut self, text: &str) {
        self.coming = None;
        if self.loading.is_first() {
            self.failure = Some(ServeError::Load(text.to_owned()));
            return;
        }
        let line = match self.loading.fail(clock::monotonic_ns()) {
            None => format!("reload failed: {text}; {}", self.what_serves()),
            Some(pause_s) => {
                format!("cannot load the Perl code again: {text}; the next try is in {pause_s} s")
            }
        };
        log_always(LogLevel::Error, &line);
        self.tell(self.load_began_ns, &format!("failed: {text}\n{}", self.what_serves()));
    }

    /// When new code could not be loaded.
    fn what_serves(&self) -> &'static str {
        match self.has_ready_worker() {
            true => "the old code keeps serving",
            false => "no worker of the old code is left: requests wait",
        }
    }

    fn generation_ready(&mut self, number: u32, perl: &str) {
        let Some(mut generation) = self.coming.take_if(|g| g.number == number) else { return };
        let first = self.loading.is_first();
        generation.take_over_log();
        generation.loads.clear();
        let warnings = self.fixed.differs(generation.config());
        self.loading.ready(clock::monotonic_ns());
        self.generations.push(generation);
        self.quick_ends = 0;
        if first {
            let server = site::server_header(ServerTokens::Minimal);
            let text = format!("{server}{perl} configured -- resuming normal operations");
            return log_always(LogLevel::Notice, &text);
        }
        self.replace_spawner();
        log_always(LogLevel::Notice, "reload: the new code is loaded; old workers finish");
        warnings.iter().for_each(|text| log_always(LogLevel::Warn, text));
        let (began_ns, ready_ns) = (self.load_began_ns, clock::monotonic_ns());
        self.tell_loaded();
        self.loaded = Some(Loaded { began_ns, ready_ns, warnings });
    }

    /// When the new code has the requests. A worker that is kept from leaving them to others holds
    /// nobody up for long.
    fn tell_loaded_when_taken_over(&mut self) {
        let Some(Loaded { ready_ns, .. }) = self.loaded else { return };
        let is_late = clock::monotonic_ns() > ready_ns + TAKE_OVER_NS;
        if is_late || self.accepts() && !self.takes_for_old_code() {
            self.tell_loaded();
        }
    }

    fn tell_loaded(&mut self) {
        let Some(Loaded { began_ns, mut warnings, .. }) = self.loaded.take() else { return };
        if !self.accepts() {
            warnings.push("no worker of the new code takes requests yet".to_owned());
        }
        let lines: Vec<String> = ["done".to_owned()].into_iter().chain(warnings).collect();
        self.tell(began_ns, &lines.join("\n"));
    }

    /// The current code has somebody who takes new connections.
    fn accepts(&self) -> bool {
        let state = |w: &Worker| self.board.slots[w.slot].state();
        let current = self.generations.last();
        current.is_some_and(|g| g.workers.iter().any(|w| w.primary && state(w) == State::Ready))
    }

    fn takes_for_old_code(&self) -> bool {
        let taking =
            |w: &Worker| matches!(self.board.slots[w.slot].state(), State::Starting | State::Ready);
        let old = self.generations.split_last().map_or(&[][..], |(_, old)| old);
        old.iter().any(|g| g.workers.iter().any(taking))
    }

    /// Those who wait for the load that began then.
    fn tell(&mut self, began_ns: u64, outcome: &str) {
        if let Some(Err(e)) = self.outcomes.as_mut().map(|o| o.tell(began_ns, outcome)) {
            self.log_mute(&e);
        }
    }

    fn log_mute(&self, error: &std::io::Error) {
        let path = self.outcomes.iter().map(|o| o.path().display().to_string()).collect::<String>();
        let text = format!("the outcome of a reload cannot be written to {path}: {error}");
        log_always(LogLevel::Error, &text);
    }

    /// The new one has the new error log, `User` and `DromCGIPreload`. The old one may be started a
    /// moment ago and not know the signal yet: that ends it as well, before it took a job.
    fn replace_spawner(&mut self) {
        let Some(config) = self.generations.last().map(|g| g.config().clone()) else { return };
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

    /// Old workers drain once the new generation has somebody who accepts.
    fn retire_old(&mut self) {
        let Some(current) = self.generations.last() else { return };
        let number = current.number;
        if !self.accepts() {
            return;
        }
        self.generations.iter_mut().filter(|g| g.number != number).for_each(Generation::drain);
        let over = |g: &mut Generation| g.number != number && g.workers.is_empty();
        self.generations.extract_if(.., over).for_each(|g| g.dismiss());
    }

    // ---- how many workers ----------------------------------------------------------------------

    fn maintain(&mut self) {
        if self.stopping_ns != 0 || clock::monotonic_ns() < self.hold_until_ns {
            return;
        }
        let Some(generation) = self.generations.last().filter(|g| g.has_template()) else { return };
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
        self.note_pressure(idle == 0 && total >= most);
        if idle > max_spare.max(min_spare + 1).max(start) {
            self.shrink();
        }
    }

    fn note_pressure(&mut self, full: bool) {
        if self.pressure.look(full, clock::monotonic_ns()) {
            let text = "server reached MaxRequestWorkers setting, consider raising the \
                MaxRequestWorkers setting";
            self.log(LogLevel::Error, text);
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
            worker.drain();
        }
    }

    fn has_ready_worker(&self) -> bool {
        self.board.slots.iter().any(|s| s.state() == State::Ready)
    }

    // ---- the end -------------------------------------------------------------------------------

    fn stop(&mut self, signal: i32) {
        let name = match signal {
            libc::SIGINT => "SIGINT",
            libc::SIGQUIT => "SIGQUIT",
            _ => "SIGTERM",
        };
        log_always(LogLevel::Notice, &format!("caught {name}, shutting down"));
        self.stopping_ns = clock::monotonic_ns();
        // Drained workers accept no more: a client would wait in vain for as long as they need.
        self.listeners.drain(..).for_each(|(_, listener)| sys::stop_listening(&listener));
        self.kill_coming();
        self.generations.iter_mut().for_each(Generation::drain);
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
        self.kill_coming();
        self.tell_loaded();
        self.generations.drain(..).for_each(|g| g.dismiss());
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
            clock::sleep(Duration::from_millis(10));
        }
        end_orphans();
        self.outcomes.iter().for_each(outcome::Board::remove);
        self.pid_file = None;
    }
}

fn write_pid_file(path: &Path) -> Result<PidFile, ServeError> {
    PidFile::write(path).map_err(|refusal| match refusal {
        Refusal::Taken(pid) => ServeError::Running(path.to_owned(), pid),
        Refusal::Unwritable(e) => ServeError::PidFile(path.to_owned(), e),
    })
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
        clock::sleep(Duration::from_millis(10));
    }
}

/// To standard error, the error log, whatever LogLevel says: what Apache says of itself as well.
fn log_always(level: LogLevel, text: &str) {
    site::write_stderr(&site::error_line(level, None, "core", text));
}

/// With what was being loaded, where that is known.
fn during(text: &str, loads: &str) -> String {
    match loads.split_once(": ") {
        Some((place, what)) => format!("{place}: {text}; it was at {what}"),
        None => text.to_owned(),
    }
}

/// Without having served anything, soon after its start.
fn ended_quickly(worker: &Worker, line: &Slot) -> bool {
    let served = line.requests.load(Relaxed) > 0;
    !served && clock::monotonic_ns() - worker.started_ns < QUICK_NS
}

fn log_death(site: &Site, line: &Slot, pid: i32, status: i32) {
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
