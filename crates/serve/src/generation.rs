//! A generation as the master sees it: one loaded state of configuration and code, the template
//! that holds it, and the workers that were forked from that.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use drom_observe::clock;

use crate::{
    config::Config,
    scoreboard::Scoreboard,
    site::{self, Site},
    sys,
    template::Message,
};

pub struct Generation {
    pub number: u32,
    pub site: Box<Site>,
    /// Standard error from when the code is loaded.
    pub error_log: Option<File>,
    /// The template's process; 0 once it ended.
    pub template: i32,
    pub socket: Option<OwnedFd>,
    /// When the template closed its end of the socket.
    closed_ns: u64,
    /// What is being loaded.
    pub loads: String,
    pub workers: Vec<Worker>,
    /// Closed, its workers take nothing new. No signal: that would cut short what Perl waits for.
    pub stay: Option<OwnedFd>,
}

pub struct Worker {
    pub slot: usize,
    /// 0 until the template told it.
    pub pid: i32,
    pub primary: bool,
    pub started_ns: u64,
    pub drained: bool,
}

/// A template that closed its socket ends by itself, or is ended after this long.
const CLOSED_NS: u64 = 1_000_000_000;
/// A template that was killed between a fork and the word about it: the worker says who it is
/// within this time.
const UNTOLD_NS: u64 = 10_000_000_000;

impl Generation {
    pub fn new(number: u32, site: Box<Site>, error_log: Option<File>) -> Self {
        Self {
            number,
            site,
            error_log,
            template: 0,
            socket: None,
            closed_ns: 0,
            loads: String::new(),
            workers: Vec::new(),
            stay: None,
        }
    }

    pub fn config(&self) -> &Config {
        &self.site.config
    }

    /// It can start workers.
    pub fn has_template(&self) -> bool {
        self.template != 0 && self.socket.is_some()
    }

    /// Its template ends. One that ended before does not hear it.
    pub fn dismiss(&self) {
        if let Some(socket) = &self.socket {
            let _ = Message::Enough.send(socket.as_raw_fd());
        }
    }

    pub fn take_over_log(&mut self) {
        if let Some(file) = self.error_log.take() {
            site::take_over(&file);
        }
    }

    /// The next message, without waiting; `None` also when the template closed its end, which is
    /// noted.
    pub fn hear(&mut self) -> Option<Message> {
        let socket = self.socket.as_ref()?;
        if !sys::poll(&[socket.as_fd()], 0)[0] {
            return None;
        }
        let message = Message::receive(socket.as_raw_fd());
        if message.is_none() {
            self.socket = None;
            self.closed_ns = clock::monotonic_ns();
        }
        message
    }

    /// A template that lives on without its socket is of no use.
    pub fn end_closed(&self, now_ns: u64) {
        if self.template != 0 && self.socket.is_none() && now_ns > self.closed_ns + CLOSED_NS {
            sys::kill(self.template, libc::SIGKILL);
        }
    }

    pub fn worker_started(&mut self, slot: u32, pid: i32) {
        let worker = self.workers.iter_mut().find(|w| w.slot == slot as usize);
        let Some(worker) = worker else { return };
        worker.pid = pid;
    }

    /// The slot of a worker with this process, also when only the worker itself has told.
    pub fn slot_of(&self, pid: i32, board: Scoreboard) -> Option<usize> {
        let told = |slot: usize| board.slots[slot].pid.load(std::sync::atomic::Ordering::Relaxed);
        let is = |w: &&Worker| w.pid == pid || w.pid == 0 && told(w.slot) == pid;
        self.workers.iter().find(is).map(|w| w.slot)
    }

    /// Slots and processes of workers that ended without anybody to tell: their template had ended.
    pub fn missing(&mut self, board: Scoreboard, now_ns: u64) -> Vec<(usize, i32)> {
        if self.template != 0 {
            return Vec::new();
        }
        let gone = |worker: &mut Worker| {
            if worker.pid == 0 {
                let pid = &board.slots[worker.slot].pid;
                worker.pid = pid.load(std::sync::atomic::Ordering::Relaxed);
            }
            match worker.pid {
                0 => now_ns > worker.started_ns + UNTOLD_NS,
                pid => !sys::is_there(pid),
            }
        };
        let workers = self.workers.iter_mut();
        workers.filter_map(|worker| gone(worker).then_some((worker.slot, worker.pid))).collect()
    }

    pub fn drain(&mut self) {
        self.stay = None;
        self.workers.iter_mut().for_each(|worker| worker.drained = true);
    }
}

impl Worker {
    /// One alone, which has nothing to do.
    pub fn drain(&mut self) {
        if !self.drained {
            self.drained = true;
            if self.pid > 0 {
                sys::kill(self.pid, libc::SIGUSR2);
            }
        }
    }
}

/// What a reload leaves as it was at the start.
pub struct Fixed {
    listen: String,
    backlog: u32,
    pid_file: Option<std::path::PathBuf>,
    slots: usize,
}

impl Fixed {
    pub fn of(config: &Config, slots: usize) -> Self {
        Self {
            listen: addresses(config),
            backlog: config.server.listen_backlog,
            pid_file: config.server.pid_file.clone(),
            slots,
        }
    }

    /// What the configuration says that only a restart makes true, a line each.
    pub fn differs(&self, config: &Config) -> Vec<String> {
        let settings = &config.server;
        let changed = |name: &str, from: &str, to: &str| {
            let text = format!("{name} changed from {from} to {to}, which takes a restart");
            (from != to).then_some(text)
        };
        let file =
            |path: Option<&Path>| path.map_or("none".to_owned(), |p| p.display().to_string());
        let most = settings.max_request_workers as usize;
        let more =
            format!("MaxRequestWorkers {most}: there is room for {} until a restart", self.slots);
        let lines = [
            changed("Listen", &self.listen, &addresses(config)),
            changed(
                "ListenBacklog",
                &self.backlog.to_string(),
                &settings.listen_backlog.to_string(),
            ),
            changed(
                "PidFile",
                &file(self.pid_file.as_deref()),
                &file(settings.pid_file.as_deref()),
            ),
            (most > self.slots).then_some(more),
        ];
        lines.into_iter().flatten().collect()
    }
}

fn addresses(config: &Config) -> String {
    let addresses: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    addresses.join(", ")
}
