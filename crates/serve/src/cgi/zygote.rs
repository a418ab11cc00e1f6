//! A zygote: a process in which perl waits inside its own start with some modules loaded, and which
//! forks children for jobs. Most children are runners: they go on to another job when a script left
//! nothing behind. The spawner's side is [`Link`]; the zygote's side is [`ZygoteLoop`], the
//! runner's is in it too, because both begin as the same process.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    mem::ManuallyDrop,
    ops::ControlFlow,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::SystemTime,
};

use drom_observe::{allowed_cores, clock, pin_current_thread};
use drom_perl::zygote::{Job as PerlJob, Runner, Wait};

use super::{
    constant::Variables,
    job::{JOB_BYTES_MAX, Job, Stdio},
    runners::Runners,
    spawner::Perl,
};
use crate::{
    scoreboard::{CgiSlot, Scoreboard},
    sys,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Taint {
    Off,
    Warn,
    On,
}

/// What makes two zygotes different.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub taint: Taint,
    /// `Name` or `Name=file`, sorted.
    pub modules: Vec<String>,
    /// Its environment.
    pub env: Variables,
    /// Where it forks. A child that begins on the core of its parent finds memory and page tables
    /// in the cache: 1.6 times as many children a second (docs/decisions/002-zygote.md).
    pub core: usize,
}

/// The spawner's end of a zygote.
pub struct Link {
    pid: i32,
    socket: OwnedFd,
    /// Files whose change makes the zygote's modules old.
    files: Vec<(String, Option<SystemTime>)>,
    checked_ns: u64,
}

/// Modules are looked at so often: CGI.pm brings 30 files, and a look at each costs 2 us.
const CHECK_NS: u64 = 100_000_000;

impl Link {
    /// Passes a job on; `learn` asks the child to report what it loaded.
    pub fn send(&self, job: &[u8], stdio: Stdio, learn: bool) -> std::io::Result<()> {
        sys::send_fds(self.socket.as_raw_fd(), &[u8::from(learn)], job, &stdio.0)
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn is_current(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        if now_ns < self.checked_ns + CHECK_NS {
            return true;
        }
        self.checked_ns = now_ns;
        self.files.iter().all(|(file, changed)| modified(file) == *changed)
    }
}

fn modified(file: &str) -> Option<SystemTime> {
    fs::metadata(file).and_then(|m| m.modified()).ok()
}

/// What a zygote has of the server.
pub struct Tools {
    pub board: Scoreboard,
    /// Whether children may run one script after another.
    pub reuse: bool,
    /// Where children tell what they loaded.
    pub report: OwnedFd,
    /// Closed when the master ends.
    pub lifeline: OwnedFd,
}

/// Starts a zygote; `None` when no process could be made.
pub fn start(kind: &Kind, perl: &Perl, tools: Tools) -> Option<Link> {
    let (mine, theirs) = sys::message_pair(false).ok()?;
    let spawner = std::process::id() as i32;
    // SAFETY: the spawner has one thread.
    match unsafe { sys::fork() }.ok()? {
        Some(pid) => {
            let files = kind.modules.iter().filter_map(|m| m.split_once('='));
            let files = files.map(|(_, file)| (file.to_owned(), modified(file))).collect();
            Some(Link { pid, socket: mine, files, checked_ns: clock::monotonic_ns() })
        }
        None => {
            drop(mine);
            // Modules that do not come to an end hear nothing of the lifeline.
            sys::die_with_parent(libc::SIGTERM);
            if sys::parent() != spawner {
                sys::exit_now(1);
            }
            run(kind, perl, theirs, tools)
        }
    }
}

fn run(kind: &Kind, perl: &Perl, jobs: OwnedFd, tools: Tools) -> ! {
    let others = [libc::SIGHUP, libc::SIGUSR1];
    sys::reset_signals_but(&others);
    // Also while modules load; a child hears it again.
    let _ = sys::signal_fd(&others);
    others.iter().for_each(|signal| sys::set_signal(*signal, false));
    // Among what the spawner holds are the pipes of the very job that made it start this zygote.
    let ours = [&jobs, &tools.report, &tools.lifeline];
    sys::close_all_except(&ours.map(AsRawFd::as_raw_fd));
    null_to_stdio();
    take_environment(&kind.env);
    let cores = allowed_cores();
    // A zygote that may run anywhere is slower, not wrong.
    let _ = pin_current_thread(&[kind.core]);
    let switches: &[&str] = match kind.taint {
        Taint::Off => &[],
        Taint::Warn => &["-t"],
        Taint::On => &["-T"],
    };
    let mut names: Vec<String> =
        kind.modules.iter().map(|m| super::spawner::named(m).to_owned()).collect();
    // What others may ask while they are loaded is watched from when it is there.
    names.sort_by_key(|name| !["Cwd", "Time::HiRes"].contains(&name.as_str()));
    let mut zygote = ZygoteLoop {
        board: tools.board,
        perl: perl.path.clone(),
        modules: kind.modules.clone(),
        cores,
        jobs: Some((jobs, tools.lifeline)),
        report: Some(tools.report),
        runners: Runners::new().ok().filter(|_| tools.reuse),
        job: None,
        child: None,
        loaded: Vec::new(),
    };
    let status = match drom_perl::zygote::run(switches, &perl.inc, &names, &mut zygote) {
        Ok((status, runner)) => {
            zygote.go_on(runner);
            status
        }
        Err(why) => {
            super::spawner::log_error(&why.to_string());
            1
        }
    };
    zygote.send_report();
    // SAFETY: perl has ended and flushed; the parent's exit handlers are not this child's.
    unsafe { libc::_exit(status & 0xff) }
}

struct ZygoteLoop {
    board: Scoreboard,
    perl: String,
    /// `Name` or `Name=file`.
    modules: Vec<String>,
    /// Where children may run.
    cores: Vec<usize>,
    /// Where jobs come from, and what closes when the master ends; `None` in a child.
    jobs: Option<(OwnedFd, OwnedFd)>,
    report: Option<OwnedFd>,
    /// `None`: no memory for them, each child runs one script.
    runners: Option<Runners>,
    /// In a runner: slot and serial of the job that it runs.
    job: Option<(u32, u32)>,
    /// In a child that is to report: its script.
    child: Option<Vec<u8>>,
    loaded: Vec<u8>,
}

/// What a zygote works with while it waits.
struct Desk {
    lifeline: OwnedFd,
    signals: OwnedFd,
    /// `None`: the spawner let go of this zygote.
    jobs: Option<OwnedFd>,
    /// `None`: each child runs one script.
    runners: Option<Runners>,
    /// Each script gets a perl of its own: what was loaded ahead cannot be shared.
    is_unfit: bool,
    /// The job that a child was given last.
    children: HashMap<i32, (u32, u32)>,
    buffer: Vec<u8>,
}

impl Desk {
    /// In a child that runs one script: the zygote's descriptors are not the script's. Freeing the
    /// rest would copy or unmap pages.
    fn leave(self) {
        std::mem::forget((self.children, self.buffer));
    }
}

const CONTINUE: ControlFlow<Option<PerlJob>> = ControlFlow::Continue(());

impl Wait for ZygoteLoop {
    fn next(&mut self, runner: Runner) -> Option<PerlJob> {
        match runner.socket() {
            Some(socket) => {
                self.runners.iter().for_each(|runners| runners.is_idle(runner.number()));
                Some(self.take_next(socket))
            }
            None => self.serve(runner),
        }
    }

    fn loaded(&mut self, entry: &[u8]) {
        if self.child.is_some() {
            self.loaded.push(0);
            self.loaded.extend_from_slice(entry);
        }
    }
}

impl ZygoteLoop {
    /// Waits, forks, reaps. In the child: takes the job's descriptors and becomes the script. A
    /// zygote whose spawner let go of it stays until its children are over, to say so.
    fn serve(&mut self, runner: Runner) -> Option<PerlJob> {
        sys::die_with_parent(0);
        // A child has the desk too. A runner's descriptors are closed already.
        let mut desk = ManuallyDrop::new(self.open_desk(runner)?);
        while desk.jobs.is_some() || !desk.children.is_empty() {
            if let ControlFlow::Break(job) = self.turn(&mut desk, runner) {
                if runner.socket().is_none() {
                    ManuallyDrop::into_inner(desk).leave();
                }
                return job;
            }
        }
        None
    }

    fn open_desk(&mut self, runner: Runner) -> Option<Desk> {
        // What is sent to the whole group is the master's to understand; children hear it again.
        let ours = [libc::SIGCHLD, libc::SIGHUP, libc::SIGUSR1, libc::SIGINT, libc::SIGTERM];
        let signals = sys::signal_fd(&ours).ok()?;
        let (jobs, lifeline) = self.jobs.take()?;
        let unfit = runner.unfit();
        if let (Some((module, file)), Some(report)) = (&unfit, &self.report) {
            let whose =
                self.modules.iter().find(|m| m.split_once('=').is_some_and(|m| m.1 == file));
            let module = super::spawner::named(whose.unwrap_or(module));
            // Scripts without a name are none. Not telling costs time, not correctness.
            let _ = sys::send_fds(report.as_raw_fd(), &[0], module.as_bytes(), &[]);
        }
        let can_reuse = unfit.is_none() && runner.is_possible();
        Some(Desk {
            is_unfit: unfit.is_some(),
            lifeline,
            signals,
            jobs: Some(jobs),
            runners: self.runners.as_ref().filter(|_| can_reuse).map(Runners::same),
            children: HashMap::new(),
            buffer: vec![0; JOB_BYTES_MAX + 1],
        })
    }

    fn turn(&mut self, desk: &mut Desk, runner: Runner) -> ControlFlow<Option<PerlJob>> {
        let mut fds = vec![desk.lifeline.as_fd(), desk.signals.as_fd()];
        fds.extend(desk.jobs.as_ref().map(AsFd::as_fd));
        let ready = sys::poll(&fds, desk.runners.as_ref().map_or(-1, Runners::look_ms));
        if ready[0] {
            desk.runners = None;
            stop_children(&self.board, desk.children.drain().map(|(pid, _)| pid).collect());
            return ControlFlow::Break(None);
        }
        if ready[1] {
            while sys::next_signal(desk.signals.as_raw_fd()).is_some() {}
            self.reap(desk);
        }
        if let Some(runners) = &mut desk.runners {
            runners.let_go_of_idle(clock::monotonic_ns());
        }
        if ready.get(2) == Some(&true) { self.take_job(desk, runner) } else { CONTINUE }
    }

    fn take_job(&mut self, desk: &mut Desk, runner: Runner) -> ControlFlow<Option<PerlJob>> {
        let Some(jobs) = &desk.jobs else { return CONTINUE };
        let mut fds = Vec::new();
        let got = sys::receive_fds(jobs.as_raw_fd(), &mut desk.buffer, &mut fds);
        let Ok(Some(got)) = got else {
            (desk.jobs, desk.runners) = (None, None); // idle ones end
            return CONTINUE;
        };
        let (learn, bytes) = (desk.buffer[0] == 1, &desk.buffer[1..got]);
        let Some(job) = Job::decode(bytes) else { return CONTINUE };
        let Some(stdio) = Stdio::of(&fds) else { return CONTINUE };
        // A child that is to learn has something to tell at its end.
        let forked = match desk.runners.as_mut().filter(|r| !learn && r.have_room()) {
            Some(runners) => runners.pass(bytes, stdio, runner).map(|pid| (pid, None)),
            None => {
                let prepared = PerlJob::new(job.script, &self.perl, &job.env, &job.args);
                // SAFETY: a zygote has one thread; a module that started others was not preloaded.
                let forked = unsafe { sys::fork() };
                if desk.is_unfit && matches!(forked, Ok(None)) {
                    let _ = pin_current_thread(&self.cores);
                    super::spawner::exec_child(&self.board, &job, stdio);
                }
                forked.map(|pid| (pid, Some(prepared)))
            }
        };
        match forked {
            Ok((Some(pid), _)) => {
                sys::make_group(pid);
                desk.children.insert(pid, (job.slot, job.serial));
                CONTINUE
            }
            Ok((None, Some(prepared))) => {
                self.become_child(&job, stdio, learn);
                fds.clear();
                std::mem::forget((job, fds));
                ControlFlow::Break(Some(prepared))
            }
            Ok((None, None)) => {
                std::mem::forget((job, fds));
                ControlFlow::Break(Some(self.become_runner(runner)))
            }
            // The pipe closes: the worker sees no output.
            Err(e) => {
                cannot_fork(&job, &e);
                CONTINUE
            }
        }
    }

    fn reap(&self, desk: &mut Desk) {
        while let Some((pid, _)) = sys::reap() {
            if let Some(slot) = desk.children.remove(&pid) {
                tell_end(&self.board, slot);
            }
            if let Some(runners) = &mut desk.runners {
                runners.forget(pid);
            }
        }
    }

    // ---- in a runner ---------------------------------------------------------------------------

    fn become_runner(&mut self, runner: Runner) -> PerlJob {
        std::mem::forget(self.report.take());
        let _ = pin_current_thread(&self.cores);
        let Some(socket) = runner.socket() else { sys::exit_now(1) };
        self.take_next(socket) // which has been sent already
    }

    /// Waits for a job. There is nothing to end but the process when the zygote let go of it.
    fn take_next(&mut self, socket: RawFd) -> PerlJob {
        let mut buffer = vec![0; JOB_BYTES_MAX];
        let mut fds = Vec::new();
        let got = sys::receive_fds(socket, &mut buffer, &mut fds);
        let (Ok(Some(got)), Some(stdio)) = (got, Stdio::of(&fds)) else { sys::exit_now(0) };
        let Some(job) = Job::decode(&buffer[..got]) else { sys::exit_now(0) };
        let prepared = PerlJob::new(job.script, &self.perl, &job.env, &job.args);
        sys::unblock_signals();
        self.job = Some((job.slot, job.serial));
        enter_child(&self.board, &job, stdio);
        prepared
    }

    /// After a script. Who stops the child stops the process: a job that somebody was about to
    /// stop is the last one.
    fn go_on(&self, runner: Runner) {
        let Some((slot, serial)) = self.job.filter(|_| runner.may_go_on()) else { return };
        if self.runners.as_ref().is_some_and(Runners::are_enough) {
            return;
        }
        let line = self.board.cgi.get(slot as usize);
        if line.is_some_and(|line| line.finish(serial, std::process::id())) {
            runner.go_on();
        }
    }

    // ---- in a child that runs one script -------------------------------------------------------

    fn become_child(&mut self, job: &Job<&[u8]>, stdio: Stdio, learn: bool) {
        // Perl chose its actions at its start, SIGFPE ignored among them: they stay.
        sys::unblock_signals();
        let _ = pin_current_thread(&self.cores);
        enter_child(&self.board, job, stdio);
        if learn {
            self.child = Some(job.script.to_vec());
        } else {
            self.report = None;
        }
    }

    fn send_report(&self) {
        if let (Some(script), Some(report)) = (&self.child, &self.report) {
            // Not learning costs time, not correctness.
            let _ = sys::send_fds(report.as_raw_fd(), script, &self.loaded, &[]);
        }
    }
}

/// The part of a CGI child that does not depend on what it runs: descriptors, folder, slot.
pub fn enter_child(board: &Scoreboard, job: &Job<&[u8]>, Stdio(fds): Stdio) {
    // The group is there before its number is known: whoever stops the child stops the group.
    sys::make_group(0);
    if let Some(line) = board.cgi.get(job.slot as usize)
        && !line.set_pid(job.serial, std::process::id() as i32)
    {
        sys::exit_now(0); // its worker ended, or its client went, while the job was on its way
    }
    for (number, fd) in (0..).zip(fds) {
        // SAFETY: a plain descriptor call in a process with one thread.
        unsafe { libc::dup2(fd, number) };
    }
    let folder = Path::new(std::ffi::OsStr::from_bytes(job.script)).parent();
    if let Some(folder) = folder {
        // A folder that cannot be entered shows when the script cannot be read.
        let _ = std::env::set_current_dir(folder);
    }
}

/// The child of a job ended: its number means nothing any more.
pub fn tell_end(board: &Scoreboard, (slot, serial): (u32, u32)) {
    if let Some(line) = board.cgi.get(slot as usize) {
        line.set_pid(serial, 0);
    }
}

pub fn cannot_fork(job: &Job<&[u8]>, error: &std::io::Error) {
    let script = String::from_utf8_lossy(job.script);
    super::spawner::log_error(&format!("cannot start {script}: {error}"));
}

/// The server ends. Workers that still read what children print have a moment for that, then no
/// child stays.
pub fn stop_children(board: &Scoreboard, mut children: Vec<i32>) {
    const STEP: std::time::Duration = std::time::Duration::from_millis(10);
    for _ in 0..30 {
        if !board.cgi.iter().any(CgiSlot::is_taken) {
            break;
        }
        clock::sleep(STEP);
    }
    for round in 0..40 {
        while sys::reap().is_some() {}
        children.retain(|&pid| sys::is_there(-pid));
        match round {
            0 => children.iter().for_each(|&pid| sys::kill(-pid, libc::SIGTERM)),
            30.. => children.iter().for_each(|&pid| sys::kill(-pid, libc::SIGKILL)),
            _ => {}
        }
        if children.is_empty() {
            return;
        }
        clock::sleep(STEP);
    }
}

/// What the server's own environment says is not for scripts, which have one of theirs. Without its
/// `LANG`, eleven files of a locale need not be mapped either, and not be copied by each fork.
fn take_environment(env: &Variables) {
    let split = |variable: &Vec<u8>| {
        let equals = variable.iter().position(|&b| b == b'=').filter(|&at| at > 0)?;
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((text(&variable[..equals]), text(&variable[equals + 1..])))
    };
    let whole = |variable: &&Vec<u8>| !variable.contains(&0);
    // SAFETY: a zygote has one thread.
    unsafe {
        std::env::vars_os().for_each(|(name, _)| std::env::remove_var(name));
        env.iter()
            .filter(whole)
            .filter_map(split)
            .for_each(|(name, value)| std::env::set_var(name, value));
    }
}

/// Perl decides at its start from descriptors 0 and 1 whether output is a terminal: here it never is.
fn null_to_stdio() {
    // SAFETY: opens a device and duplicates it over 0 and 1.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null >= 0 {
            libc::dup2(null, 0);
            libc::dup2(null, 1);
        }
    }
}

/// Modules whose loading does what must happen anew in each process.
const NEVER: [&str; 12] = [
    "FindBin",
    "lib",
    "threads",
    "threads::shared",
    "Test::",
    "Devel::",
    "IO::Socket::SSL",
    "Env",
    "diagnostics",
    "sigtrap",
    "CGI::Fast",
    "FCGI",
];

/// "CGI/Util.pm=/usr/share/perl5/CGI/Util.pm" as "CGI::Util=/usr/share/perl5/CGI/Util.pm" when the
/// module lies in perl's own folders and may be loaded before the script.
pub fn module_to_preload(entry: &[u8]) -> Option<String> {
    let entry = std::str::from_utf8(entry).ok()?;
    let (key, file) = entry.split_once('=')?;
    let name = key.strip_suffix(".pm")?.replace('/', "::");
    let system = ["/usr/share/perl", "/usr/lib/", "/usr/local/share/perl", "/usr/local/lib/"];
    let allowed = system.iter().any(|folder| file.starts_with(folder));
    let never =
        NEVER.iter().any(|n| if n.ends_with(':') { name.starts_with(n) } else { name == *n });
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':');
    (allowed && !never && word).then(|| format!("{name}={file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_modules_of_the_system_are_preloaded() {
        let preload = |entry: &str| module_to_preload(entry.as_bytes());
        assert_eq!(
            preload("CGI/Util.pm=/usr/share/perl5/CGI/Util.pm").as_deref(),
            Some("CGI::Util=/usr/share/perl5/CGI/Util.pm")
        );
        assert_eq!(preload("FindBin.pm=/usr/share/perl/5.36/FindBin.pm"), None);
        assert_eq!(preload("Test/More.pm=/usr/share/perl/5.36/Test/More.pm"), None);
        assert_eq!(preload("My/App.pm=/srv/app/lib/My/App.pm"), None);
        assert_eq!(preload("config.pl=/usr/share/perl5/config.pl"), None);
    }
}
