//! The template process: loads the configuration's Perl once, never serves, and forks workers that
//! share its memory. Talks to the master over one socket with the messages of [`Message`].

use std::{
    collections::HashMap,
    fs::File,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
};

use drom_perl::{Interpreter, Unavailable};

use crate::{
    config::{LogLevel, PerlStartup, PerlStep, PerlStepKind, ScriptFlavour},
    engine,
    perl_tier::PerlTier,
    scoreboard::{Scoreboard, State},
    site::{self, Site},
    sys, worker,
};

/// What every process of a generation inherits.
#[derive(Clone)]
pub struct Inherited {
    pub board: Scoreboard,
    pub listeners: Vec<RawFd>,
    pub inbox: (RawFd, RawFd),
    pub overflow: (RawFd, RawFd),
    pub cgi_jobs: RawFd,
    pub lifeline: RawFd,
    /// Ends when this generation is to finish.
    pub enough: RawFd,
    pub alarm: RawFd,
    pub master: i32,
    pub user: Option<Identity>,
}

/// Whom workers run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// Between master and template, one per message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// To the template: fork a worker for a slot.
    Fork {
        slot: u32,
        primary: bool,
    },
    /// To the template: it is not needed any more. Without this the end of the socket is the end of
    /// the master.
    Enough,
    /// What is loaded now, and where the configuration says so.
    Loads(String),
    /// Everything is loaded; the name of the perl, when there is one.
    Ready {
        perl: String,
    },
    /// It cannot be loaded; the text is for the operator.
    Failed(String),
    Started {
        slot: u32,
        pid: i32,
    },
    Ended {
        slot: u32,
        pid: i32,
        status: i32,
    },
}

impl Message {
    pub fn send(&self, socket: RawFd) -> std::io::Result<()> {
        let numbers = |kind: u8, a: i64, b: i64, c: i64| {
            let mut bytes = vec![kind];
            for number in [a, b, c] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes
        };
        let words =
            |kind: u8, text: &str| [&[kind], &text.as_bytes()[..text.len().min(60_000)]].concat();
        let bytes = match self {
            Self::Fork { slot, primary } => numbers(b'F', (*slot).into(), (*primary).into(), 0),
            Self::Enough => vec![b'Q'],
            Self::Loads(text) => words(b'L', text),
            Self::Ready { perl } => words(b'R', perl),
            Self::Failed(text) => words(b'E', text),
            Self::Started { slot, pid } => numbers(b'S', (*slot).into(), (*pid).into(), 0),
            Self::Ended { slot, pid, status } => {
                numbers(b'D', (*slot).into(), (*pid).into(), (*status).into())
            }
        };
        sys::send_fds(socket, &bytes, &[], &[])
    }

    /// `None` when the other side is gone or speaks another language.
    pub fn receive(socket: RawFd) -> Option<Self> {
        let mut buffer = vec![0; 65536];
        let len = sys::receive_fds(socket, &mut buffer, &mut Vec::new()).ok()??;
        let (kind, rest) = buffer[..len].split_first()?;
        let number = |index: usize| {
            let bytes = rest.get(index * 8..index * 8 + 8)?;
            Some(i64::from_le_bytes(bytes.try_into().ok()?))
        };
        let text = || String::from_utf8_lossy(rest).into_owned();
        Some(match kind {
            b'F' => Self::Fork { slot: number(0)? as u32, primary: number(1)? != 0 },
            b'Q' => Self::Enough,
            b'L' => Self::Loads(text()),
            b'R' => Self::Ready { perl: text() },
            b'E' => Self::Failed(text()),
            b'S' => Self::Started { slot: number(0)? as u32, pid: number(1)? as i32 },
            b'D' => Self::Ended {
                slot: number(0)? as u32,
                pid: number(1)? as i32,
                status: number(2)? as i32,
            },
            _ => return None,
        })
    }
}

/// What stays of the configuration's Perl when it is loaded.
struct Loaded {
    perl: Option<PerlTier>,
    /// What start-up code wants of the end of children. The template itself has to hear of it.
    on_child: libc::sigaction,
}

/// The whole life of a template, and in a forked child the whole life of a worker. Until the code
/// is loaded, standard error stays what it is.
pub fn run(
    site: &'static Site,
    error_log: Option<File>,
    inherited: Inherited,
    master: OwnedFd,
) -> i32 {
    sys::reset_signals_but(&sys::FOR_THE_MASTER);
    // Start-up code that does not end hears nothing of the lifeline.
    sys::die_with_parent(libc::SIGKILL);
    if sys::parent() != inherited.master {
        return 1;
    }
    sys::set_signal(libc::SIGPIPE, true);
    sys::set_signal(libc::SIGXFSZ, true);
    let perl = match load(site, &master) {
        Ok(perl) => perl,
        Err(text) => {
            // The master shows it; when the master is gone nobody needs it.
            let _ = Message::Failed(text).send(master.as_raw_fd());
            return 1;
        }
    };
    error_log.iter().for_each(site::take_over);
    drop(error_log);
    let loaded = Loaded { perl, on_child: sys::reset_child_signal() };
    // From here on it hears the end of the socket, and can say so.
    sys::die_with_parent(0);
    fork_workers(site, inherited, master, loaded)
}

fn fork_workers(
    site: &'static Site,
    inherited: Inherited,
    master: OwnedFd,
    mut loaded: Loaded,
) -> i32 {
    // SIGTERM for the whole group is the master's to understand.
    let Ok(signals) = sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM]) else { return 1 };
    let perl = loaded.perl.as_ref().map(|perl| perl.interpreter.version());
    let perl = perl.map(|version| format!(" Perl/{version}")).unwrap_or_default();
    if (Message::Ready { perl }).send(master.as_raw_fd()).is_err() {
        return 1;
    }
    let mut slots = HashMap::new();
    loop {
        let ready = sys::poll(&[master.as_fd(), signals.as_fd()], -1);
        if ready[1] {
            while sys::next_signal(signals.as_raw_fd()).is_some() {}
            tell_ended(&mut slots, &master);
        }
        if !ready[0] {
            continue;
        }
        let message = Message::receive(master.as_raw_fd());
        let Some(Message::Fork { slot, primary }) = message else {
            if message.is_none() {
                note_master(site, inherited.master);
            }
            return 0;
        };
        // SAFETY: one thread; start-up code that leaves others behind is refused.
        match unsafe { sys::fork() } {
            Ok(None) => {
                drop(master);
                drop(signals);
                // Until it has handlers of its own.
                sys::reset_signals_but(&sys::FOR_THE_MASTER);
                sys::set_child_signal(&loaded.on_child);
                return become_worker(site, inherited, slot, primary, loaded.perl.take());
            }
            Ok(Some(pid)) => {
                slots.insert(pid, slot);
                let _ = Message::Started { slot, pid }.send(master.as_raw_fd());
            }
            Err(e) => {
                let text = format!("cannot fork a worker: {e}");
                site.log_error(LogLevel::Crit, None, "core", &text);
                let _ = Message::Ended { slot, pid: 0, status: 1 << 8 }.send(master.as_raw_fd());
            }
        }
    }
}

/// A master that is gone shows at the next receive.
fn tell_ended(slots: &mut HashMap<i32, u32>, master: &OwnedFd) {
    while let Some((pid, status)) = sys::reap() {
        if let Some(slot) = slots.remove(&pid) {
            let _ = Message::Ended { slot, pid, status }.send(master.as_raw_fd());
        }
    }
}

fn note_master(site: &Site, master: i32) {
    let text = format!("the master process {master} is gone: the server ends");
    site.log_error(LogLevel::Crit, None, "core", &text);
}

fn become_worker(
    site: &'static Site,
    inherited: Inherited,
    slot: u32,
    primary: bool,
    perl: Option<PerlTier>,
) -> i32 {
    if let Some(user) = &inherited.user
        && let Err(e) = sys::become_user(user)
    {
        let text = format!("cannot become the configured User: {e}");
        site.log_error(LogLevel::Crit, None, "core", &text);
        return 1;
    }
    // Scripts are run in their folders, and a worker comes back from there.
    if std::env::set_current_dir(".").is_err() && std::env::set_current_dir("/").is_err() {
        return 1;
    }
    let me = slot as usize;
    let line = &inherited.board.slots[me];
    line.pid.store(std::process::id() as i32, std::sync::atomic::Ordering::Relaxed);
    line.set_state(State::Starting);
    let Ok(kick) = sys::event_fd() else { return 1 };
    let setup = engine::Setup {
        site,
        board: inherited.board,
        me,
        primary,
        listeners: inherited.listeners,
        inbox: inherited.inbox,
        overflow: inherited.overflow,
        cgi_jobs: inherited.cgi_jobs,
        lifeline: inherited.lifeline,
        enough: inherited.enough,
        kick: kick.as_raw_fd(),
    };
    crate::crisis::set_wakers(kick.as_raw_fd(), inherited.alarm);
    worker::run(setup, perl)
}

// ---- loading ---------------------------------------------------------------------------------------

/// Starts perl and loads what the configuration names, in order. The error is for the operator.
fn load(site: &'static Site, master: &OwnedFd) -> Result<Option<PerlTier>, String> {
    let startup = &site.config.perl;
    if !startup.wanted {
        return Ok(None);
    }
    let mut switches: Vec<String> = startup.switches.iter().map(|(s, _)| s.clone()).collect();
    if startup.taint {
        switches.push("-T".to_owned());
    }
    if startup.warn {
        switches.push("-w".to_owned());
    }
    set_start_env(site);
    drom_perl::set_server(site.facts());
    let interpreter = Interpreter::start(&switches).map_err(|e| no_start(startup, &e))?;
    interpreter.require("Drom::Environment", false).map_err(|text| shown(&text))?;
    interpreter.require("Drom::Startup", false).map_err(|text| shown(&text))?;
    let mut perl = PerlTier::new(interpreter);
    let late = |step: &&PerlStep| matches!(step.kind, PerlStepKind::PostConfigRequire(_));
    let (after, first): (Vec<_>, Vec<_>) = startup.steps.iter().partition(late);
    for step in first.into_iter().chain(after) {
        say_loads(master, &described(step));
        run_step(&perl, step)?;
    }
    preload(&mut perl, master)?;
    perl.interpreter.require("Drom::Environment::Forget", false).map_err(|text| shown(&text))?;
    if sys::thread_count() > 1 {
        return Err(
            "start-up code left threads running; workers cannot be forked from it".to_owned()
        );
    }
    Ok(Some(perl))
}

/// With the place of the switch that perl complains of, or of all of them.
fn no_start(startup: &PerlStartup, error: &Unavailable) -> String {
    let Unavailable::Start(text) = error else { return error.to_string() };
    let named = startup.switches.iter().find(|(switch, _)| complains_of(text, switch));
    let mut places: Vec<String> = match named {
        Some((_, place)) => vec![place.to_string()],
        None => startup.switches.iter().map(|(_, place)| place.to_string()).collect(),
    };
    places.dedup();
    match places.is_empty() {
        true => error.to_string(),
        false => format!("{}: PerlSwitches: {error}", places.join(", ")),
    }
}

fn complains_of(text: &str, switch: &str) -> bool {
    let module = switch.strip_prefix("-M").or_else(|| switch.strip_prefix("-m"));
    let name = module.and_then(|m| m.split(['=', ' ']).next()).map(|m| m.replace("::", "/"));
    text.contains(switch) || name.is_some_and(|name| text.contains(&format!(" {name}.pm ")))
}

/// Should this process end over it, the master knows over what.
fn say_loads(master: &OwnedFd, what: &str) {
    // A master that is gone shows later.
    let _ = Message::Loads(what.to_owned()).send(master.as_raw_fd());
}

fn described(step: &PerlStep) -> String {
    let (name, what) = match &step.kind {
        PerlStepKind::Module(module) => ("PerlModule", module.clone()),
        PerlStepKind::Require(path) => ("PerlRequire", path.display().to_string()),
        PerlStepKind::ConfigRequire(path) => ("PerlConfigRequire", path.display().to_string()),
        PerlStepKind::PostConfigRequire(path) => {
            ("PerlPostConfigRequire", path.display().to_string())
        }
    };
    format!("{}: {name} {what}", step.place)
}

fn run_step(perl: &PerlTier, step: &PerlStep) -> Result<(), String> {
    let result = match &step.kind {
        PerlStepKind::Module(name) => perl.interpreter.require(name, false),
        PerlStepKind::Require(path)
        | PerlStepKind::ConfigRequire(path)
        | PerlStepKind::PostConfigRequire(path) => {
            perl.interpreter.require(&path.to_string_lossy(), true)
        }
    };
    result.map_err(|text| format!("{}: {}", step.place, shown(&text)))
}

/// Scripts that `ModPerl::RegistryLoader` asked for while the start-up files ran.
fn preload(perl: &mut PerlTier, master: &OwnedFd) -> Result<(), String> {
    for entry in perl.interpreter.take_preloads() {
        let mut parts = entry.split(|&b| b == 0).map(|p| String::from_utf8_lossy(p).into_owned());
        let (class, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let flavour = ScriptFlavour::CLASSES.iter().find(|(name, _)| *name == class);
        let (_, flavour) = flavour.ok_or_else(|| {
            format!("RegistryLoader: {class} is no class of scripts; use ModPerl::Registry")
        })?;
        say_loads(master, &format!("RegistryLoader: {file}"));
        perl.preload(*flavour, std::path::Path::new(&file))
            .map_err(|e| format!("RegistryLoader cannot compile {file}: {e}"))?;
    }
    Ok(())
}

/// What start-up code and modules find in the environment: `MOD_PERL`, and `PerlSetEnv`.
fn set_start_env(site: &Site) {
    let startup = &site.config.perl;
    let fixed = [("MOD_PERL", crate::environment::MOD_PERL), ("MOD_PERL_API_VERSION", "2")];
    let set = startup.set_env.iter().map(|(name, _)| name);
    let keep = startup.pass_env.iter().chain(set).cloned().collect::<Vec<_>>().join(" ");
    let fixed = fixed.into_iter().chain([("DROM_KEEP_ENV", keep.as_str())]);
    let configured = startup.set_env.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    for (name, value) in fixed.chain(configured) {
        // SAFETY: the template has one thread.
        unsafe { std::env::set_var(name, value) };
    }
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_trip() {
        let (a, b) = sys::message_pair(false).unwrap();
        for message in [
            Message::Fork { slot: 3, primary: true },
            Message::Enough,
            Message::Loads("c.conf:3: PerlModule Site".to_owned()),
            Message::Ready { perl: " Perl/v5.36.0".to_owned() },
            Message::Failed("startup.pl line 3".to_owned()),
            Message::Started { slot: 1, pid: 77 },
            Message::Ended { slot: 1, pid: 77, status: 139 },
        ] {
            message.send(a.as_raw_fd()).unwrap();
            assert_eq!(Message::receive(b.as_raw_fd()), Some(message));
        }
        drop(a);
        assert_eq!(Message::receive(b.as_raw_fd()), None);
    }
}
