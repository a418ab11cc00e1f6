//! The spawner: takes CGI jobs from all workers, starts programs, and keeps the zygotes.
//!
//! It holds zygotes for each taint mode and set of modules, one a core. Which modules a script loads
//! is learned from its own runs: a child reports its %INC once it is compiled, and from the second
//! run on the script comes out of a zygote that has those modules loaded. Only modules of perl's own
//! library folders count.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    ffi::CString,
    fs::File,
    io::Read,
    net::SocketAddr,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
    process::{self, Command},
};

use super::{
    constant::Constant,
    errors::{Errors, Heard, Speaker, TURN_BYTES},
    job::{JOB_BYTES_MAX, Job, Leftover, Stdio},
    zygote,
};
use crate::{
    config::LogLevel,
    scoreboard::{CgiSlot, Scoreboard},
    site, sys,
};

/// What the spawner is given at its start.
pub struct Setup {
    pub board: Scoreboard,
    /// Jobs come here from every worker.
    pub jobs: OwnedFd,
    /// The other end: a spawner that retires has a successor hear what it heard.
    pub to_jobs: OwnedFd,
    /// Closed when the master ends.
    pub lifeline: OwnedFd,
    pub log_level: LogLevel,
    /// `DromCGIPreload`.
    pub preload: Vec<String>,
    /// `DromCGIReuse`.
    pub reuse: bool,
    /// A perl is to wait for scripts before the first of them is asked for.
    pub ahead: bool,
    pub constant: Constant,
}

/// More sets of modules than this are not kept apart.
const SETS_MAX: usize = 12;
/// Zygotes of one kind: one a core, but no more than these.
const CORES_MAX: usize = 8;
/// Of programs in the background no more than these can say something.
const LEFT_MAX: usize = 1000;

struct Spawner {
    setup: Setup,
    zygotes: HashMap<zygote::Kind, zygote::Link>,
    scripts: HashMap<Vec<u8>, Script>,
    reports: (OwnedFd, OwnedFd),
    children: HashMap<i32, (u32, u32)>,
    /// Standard errors of scripts that have answered.
    left: Vec<Left>,
    /// Zygotes that get no more jobs.
    leaving: Vec<i32>,
    retired: bool,
    /// Modules that are never loaded ahead: see [`drom_perl::zygote::Runner::unfit`].
    unfit: HashSet<String>,
    /// Looked for when it is needed; `None` inside when scripts get processes of their own.
    perl: OnceCell<Option<Perl>>,
    /// Where zygotes fork, and which of them is next.
    cores: Vec<usize>,
    turn: usize,
}

/// See [`Leftover`].
struct Left {
    errors: Errors,
    client: Option<SocketAddr>,
    script: Vec<u8>,
}

/// What is known of a script.
struct Script {
    /// When its text or its rights changed.
    changed: Option<(i64, i64, u64)>,
    how: How,
    modules: Vec<String>,
    learned: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Exec,
    Perl { taint: zygote::Taint },
}

/// The perl that scripts mean: the one whose libperl this program was built with.
pub struct Perl {
    pub path: String,
    /// Its @INC; empty when it would not say.
    pub inc: Vec<String>,
}

/// Between two jobs a spawner that gets this leaves the rest to its successor. It stays until its
/// zygotes have finished what they were given: one that still loads its modules ends with it.
pub const RETIRE: i32 = libc::SIGUSR2;

/// Runs until the master ends or retires it; then returns.
pub fn run(setup: Setup) {
    // SIGTERM for the whole group is the master's to understand.
    let signals = sys::signal_fd(&[libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, RETIRE]);
    let Ok(signals) = signals else { return };
    let Ok(reports) = sys::message_pair(false) else { return };
    let mut cores = drom_observe::allowed_cores();
    cores.truncate(CORES_MAX);
    let mut spawner = Spawner {
        setup,
        zygotes: HashMap::new(),
        scripts: HashMap::new(),
        reports,
        children: HashMap::new(),
        left: Vec::new(),
        leaving: Vec::new(),
        retired: false,
        unfit: HashSet::new(),
        perl: OnceCell::new(),
        cores,
        turn: 0,
    };
    if spawner.setup.ahead && spawner.perl().is_some() {
        spawner.warm_up();
    }
    let mut buffer = vec![0; JOB_BYTES_MAX];
    while !spawner.is_over() {
        let mut fds =
            vec![spawner.setup.lifeline.as_fd(), signals.as_fd(), spawner.reports.0.as_fd()];
        fds.extend(spawner.left.iter().map(|left| left.errors.pipe.as_fd()));
        fds.extend((!spawner.retired).then(|| spawner.setup.jobs.as_fd()));
        let mut ready = sys::poll(&fds, -1);
        let has_job = !spawner.retired && ready.pop() == Some(true);
        if ready[0] {
            return spawner.end();
        }
        if ready[1] {
            while let Some(signal) = sys::next_signal(signals.as_raw_fd()) {
                if signal == RETIRE {
                    spawner.retire();
                }
            }
            spawner.reap();
        }
        if ready[2] {
            spawner.learn(&mut buffer);
        }
        if ready[3..].contains(&true) {
            spawner.listen(&ready[3..]);
        }
        if has_job && !spawner.retired {
            spawner.take_job(&mut buffer);
        }
    }
}

impl Spawner {
    fn retire(&mut self) {
        self.retired = true;
        self.leaving.extend(self.zygotes.drain().map(|(_, link)| link.pid()));
        let to_jobs = self.setup.to_jobs.as_raw_fd();
        let level = self.setup.log_level;
        self.left.retain(|Left { errors, client, script }| {
            errors.hand_on(&Speaker { client: *client, script, level }, to_jobs).is_err()
        });
    }

    fn is_over(&self) -> bool {
        self.retired && self.leaving.is_empty() && self.children.is_empty() && self.left.is_empty()
    }

    fn perl(&self) -> Option<&Perl> {
        self.perl.get_or_init(find_perl).as_ref()
    }

    /// The first requests should not wait for perl's start.
    fn warm_up(&mut self) {
        self.name_missing();
        let mut kind = self.kind(zygote::Taint::Off, &[], self.setup.constant.base());
        for core in self.cores.clone() {
            kind.core = core;
            self.zygote(&kind);
        }
    }

    /// What a script asks for it complains about itself; what the configuration asks for, nobody.
    fn name_missing(&self) {
        let Some(perl) = self.perl().filter(|perl| !perl.inc.is_empty()) else { return };
        let file = |module: &str| format!("{}.pm", module.replace("::", "/"));
        let is_there = |m: &&String| perl.inc.iter().any(|i| Path::new(i).join(file(m)).exists());
        for module in self.setup.preload.iter().filter(|module| !is_there(module)) {
            let text = format!("DromCGIPreload: {module} is in no folder of perl's @INC");
            site::write_stderr(&site::error_line(LogLevel::Warn, None, "cgi", text));
        }
    }

    fn take_job(&mut self, buffer: &mut [u8]) {
        let mut fds = Vec::new();
        let got = sys::receive_fds(self.setup.jobs.as_raw_fd(), buffer, &mut fds);
        let Ok(Some(len)) = got else { return };
        let Some(stdio) = Stdio::of(&fds) else { return self.keep_listening(&buffer[..len], fds) };
        let Some(job) = Job::decode(&buffer[..len]) else { return };
        let how = self.know(&job);
        let passed = match how {
            How::Perl { taint } if is_plain(&job.env) => {
                self.pass(&job, taint, &buffer[..len], stdio)
            }
            _ => false,
        };
        if !passed {
            self.exec(&job, stdio);
        }
    }

    fn keep_listening(&mut self, message: &[u8], mut fds: Vec<OwnedFd>) {
        // A job whose descriptors found no room has fewer of them, or none.
        let (Some(pipe), Some(leftover)) = (fds.pop(), Leftover::decode(message)) else {
            return log_error(
                "a CGI script cannot be started: too many files are open (ulimit -n)",
            );
        };
        if self.left.len() == LEFT_MAX {
            let left = self.left.remove(0);
            let script = String::from_utf8_lossy(&left.script);
            log_error(&format!(
                "{script}: what it left in the background is not heard any more ({LEFT_MAX} speak)"
            ));
        }
        let client = std::str::from_utf8(leftover.client).ok().and_then(|c| c.parse().ok());
        let errors = Errors { pipe, begun: leftover.begun.to_vec() };
        self.left.push(Left { errors, client, script: leftover.script.to_vec() });
    }

    fn listen(&mut self, ready: &[bool]) {
        let level = self.setup.log_level;
        let mut ready = ready.iter();
        self.left.retain_mut(|Left { errors, client, script }| {
            let is_ready = ready.next() == Some(&true);
            let speaker = Speaker { client: *client, script, level };
            !is_ready || errors.log(TURN_BYTES, &speaker) != Heard::End
        });
    }

    /// Looks at the script's first line, once per change of the file.
    fn know(&mut self, job: &Job<&[u8]>) -> How {
        let path = Path::new(std::ffi::OsStr::from_bytes(job.script));
        // Also of its rights: a script is switched off by taking its x away.
        let changed = path.metadata().ok().map(|m| (m.ctime(), m.ctime_nsec(), m.ino()));
        if let Some(known) = self.scripts.get(job.script)
            && known.changed == changed
        {
            return known.how;
        }
        let how = self.perl().map_or(How::Exec, |perl| first_line(path, &perl.path));
        // Nothing may be loaded before early code, and nothing is for a program that is not Perl.
        let learned = how == How::Exec || has_early_code(path);
        let script = Script { changed, how, modules: Vec::new(), learned };
        self.scripts.insert(job.script.to_vec(), script);
        how
    }

    fn pass(&mut self, job: &Job<&[u8]>, taint: zygote::Taint, bytes: &[u8], stdio: Stdio) -> bool {
        let known = &self.scripts[job.script];
        let mut kind = self.kind(taint, &known.modules, &job.env);
        self.turn = (self.turn + 1) % self.cores.len();
        kind.core = self.cores[self.turn];
        let learn = !known.learned;
        let Some(link) = self.zygote(&kind) else { return false };
        link.send(bytes, stdio, learn).is_ok()
    }

    fn kind<Text: AsRef<[u8]>>(
        &self,
        taint: zygote::Taint,
        modules: &[String],
        env: &[Text],
    ) -> zygote::Kind {
        let fit = |module: &&String| !self.unfit.contains(named(module));
        let all = self.setup.preload.iter().chain(modules).filter(fit);
        let mut all: Vec<String> = all.cloned().collect();
        all.sort();
        all.dedup();
        let env = self.setup.constant.part(env, !all.is_empty());
        zygote::Kind { taint, modules: all, env, core: self.cores[0] }
    }

    /// The zygote of a kind, started when there is none. Without room for one more a bare one has
    /// to do.
    fn zygote(&mut self, kind: &zygote::Kind) -> Option<&zygote::Link> {
        let full = self.zygotes.len() >= SETS_MAX * self.cores.len();
        let bare = (full && !self.zygotes.contains_key(kind)).then(|| {
            let bare = self.kind(kind.taint, &[], &kind.env);
            zygote::Kind { core: kind.core, ..bare }
        });
        let kind = bare.as_ref().unwrap_or(kind);
        let stale = self.zygotes.get_mut(kind).is_some_and(|link| !link.is_current());
        if stale && let Some(link) = self.zygotes.remove(kind) {
            self.leaving.push(link.pid());
        }
        if !self.zygotes.contains_key(kind) {
            let perl = self.perl()?;
            let tools = zygote::Tools {
                board: self.setup.board,
                reuse: self.setup.reuse,
                report: self.reports.1.try_clone().ok()?,
                lifeline: self.setup.lifeline.try_clone().ok()?,
            };
            let link = zygote::start(kind, perl, tools)?;
            self.zygotes.insert(kind.clone(), link);
        }
        self.zygotes.get(kind)
    }

    /// A child told which files it had loaded: "script NUL module=file NUL ...".
    fn learn(&mut self, buffer: &mut [u8]) {
        let mut none = Vec::new();
        let got = sys::receive_fds(self.reports.0.as_raw_fd(), buffer, &mut none);
        let Ok(Some(len)) = got else { return };
        let mut parts = buffer[..len].split(|&b| b == 0);
        let script = parts.next().unwrap_or_default();
        if script.is_empty() {
            let module = parts.next().map(|name| String::from_utf8_lossy(name).into_owned());
            return self.never_again(&module.unwrap_or_default());
        }
        if let Some(known) = self.scripts.get_mut(script) {
            known.modules = parts.filter_map(zygote::module_to_preload).collect();
            known.modules.sort();
            known.learned = true;
        }
    }

    /// Scripts load it themselves; zygotes that have it run what they were given.
    fn never_again(&mut self, module: &str) {
        self.unfit.insert(module.to_owned());
        let has = |kind: &zygote::Kind| kind.modules.iter().any(|m| named(m) == module);
        let gone = self.zygotes.extract_if(|kind, _| has(kind));
        self.leaving.extend(gone.map(|(_, link)| link.pid()));
    }

    fn exec(&mut self, job: &Job<&[u8]>, stdio: Stdio) {
        // SAFETY: this process has one thread.
        match unsafe { sys::fork() } {
            Ok(None) => exec_child(&self.setup.board, job, stdio),
            Ok(Some(pid)) => {
                sys::make_group(pid);
                self.children.insert(pid, (job.slot, job.serial));
            }
            Err(e) => zygote::cannot_fork(job, &e),
        }
    }

    /// Zygotes stop their children themselves. The scoreboard knows those of zygotes that were
    /// killed.
    fn end(self) {
        let listed = self.setup.board.cgi.iter().map(CgiSlot::pid).filter(|&pid| pid > 0);
        zygote::stop_children(&self.setup.board, self.children.into_keys().chain(listed).collect());
    }

    fn reap(&mut self) {
        while let Some((pid, status)) = sys::reap() {
            if let Some(slot) = self.children.remove(&pid) {
                zygote::tell_end(&self.setup.board, slot);
            }
            self.leaving.retain(|&leaving| leaving != pid);
            let before = self.zygotes.len();
            self.zygotes.retain(|_, link| link.pid() != pid);
            if self.zygotes.len() != before {
                let how = sys::how_it_ended(status);
                log_error(&format!("a perl that waits for CGI scripts {how}"));
            }
        }
    }
}

/// "CGI::Util" of "CGI::Util=/usr/share/perl5/CGI/Util.pm".
pub fn named(module: &str) -> &str {
    module.split('=').next().unwrap_or(module)
}

/// Environment variables that change perl's own start need a perl of their own.
fn is_plain(env: &[&[u8]]) -> bool {
    const PERL: [&[u8]; 4] = [b"PERL5", b"PERL_", b"PERLIO", b"PERLLIB"];
    !env.iter().any(|var| PERL.iter().any(|name| var.starts_with(name)))
}

pub fn exec_child(board: &Scoreboard, job: &Job<&[u8]>, stdio: Stdio) -> ! {
    sys::reset_signals();
    zygote::enter_child(board, job, stdio);
    let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
    let path = text(job.script);
    let name = job.script.rsplit(|&b| b == b'/').next().unwrap_or(job.script);
    let args: Vec<CString> =
        std::iter::once(text(name)).chain(job.args.iter().map(|a| text(a))).collect();
    let env: Vec<CString> = job.env.iter().map(|e| text(e)).collect();
    let pointers = |list: &[CString]| {
        list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (argv, envp) = (pointers(&args), pointers(&env));
    // SAFETY: NULL-terminated arrays of C strings that live until exec or exit.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    let why = std::io::Error::last_os_error();
    // The script's standard error by now, of which the worker makes a line.
    site::write_stderr(format!("cannot run the script: {why}").as_bytes());
    // SAFETY: ends this child without the parent's exit handlers.
    unsafe { libc::_exit(126) }
}

/// A script runs in a zygote when its first line names the perl we have, and nothing on that line asks
/// for what only a new perl can do.
fn first_line(path: &Path, perl: &str) -> How {
    let mut start = [0; 256];
    let got = File::open(path).and_then(|mut f| f.read(&mut start)).unwrap_or(0);
    let line = start[..got].split(|&b| b == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else { return How::Exec };
    if !is_executable(path) {
        return How::Exec; // the error should be the usual one
    }
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let named = match words.next() {
        Some("/usr/bin/env") => words.next().is_some_and(|w| w == "perl"),
        Some(word) => word == perl || (word == "/usr/bin/perl" && same_file(word, perl)),
        None => false,
    };
    match (named, words.next(), words.next()) {
        (true, None, _) => How::Perl { taint: zygote::Taint::Off },
        (true, Some(switches), None) => switches_taint(switches),
        _ => How::Exec,
    }
}

/// Whether a script does something before its modules are loaded, which they may look at.
fn has_early_code(path: &Path) -> bool {
    let text = std::fs::read(path).unwrap_or_default();
    ["BEGIN", "CORE::GLOBAL", "UNIVERSAL::"]
        .iter()
        .any(|word| memchr::memmem::find(&text, word.as_bytes()).is_some())
}

fn switches_taint(switches: &str) -> How {
    let Some(letters) = switches.strip_prefix('-') else { return How::Exec };
    if !letters.chars().all(|c| "wTtW".contains(c)) || letters.contains('W') {
        return How::Exec;
    }
    let taint = match (letters.contains('T'), letters.contains('t')) {
        (true, _) => zygote::Taint::On,
        (_, true) => zygote::Taint::Warn,
        _ => zygote::Taint::Off,
    };
    How::Perl { taint }
}

fn same_file(a: &str, b: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(path).ok();
    real(a).is_some() && real(a) == real(b)
}

fn is_executable(path: &Path) -> bool {
    let Ok(text) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a C string.
    unsafe { libc::access(text.as_ptr(), libc::X_OK) == 0 }
}

fn find_perl() -> Option<Perl> {
    let path = "/usr/bin/perl";
    if !drom_perl::available() || !Path::new(path).exists() || !loads() {
        return None;
    }
    Some(Perl { path: path.to_owned(), inc: inc_of(path) })
}

/// Whether libperl is there. Not tried in this process, which stays small: it is what forks.
fn loads() -> bool {
    // SAFETY: the spawner has one thread.
    match unsafe { sys::fork() } {
        Ok(None) => {
            let loaded = drom_perl::load();
            if let Err(why) = &loaded {
                let text = "CGI scripts are run without a perl that waits for them";
                log_error(&format!("{text}: {why}"));
            }
            sys::exit_now(i32::from(loaded.is_err()))
        }
        Ok(Some(pid)) => sys::wait_for(pid) == Some(0),
        Err(_) => false,
    }
}

/// Not what libperl says: a distribution may build the two with different folders.
fn inc_of(perl: &str) -> Vec<String> {
    let asked = ["-e", "print join qq(\\0), @INC"];
    let told = Command::new(perl).args(asked).env_clear().stdin(process::Stdio::null()).output();
    let told = told.map(|output| output.stdout).unwrap_or_default();
    let folders = told.split(|&b| b == 0).filter(|folder| !folder.is_empty());
    folders.map(|folder| String::from_utf8_lossy(folder).into_owned()).collect()
}

/// Standard error is the error log here.
pub fn log_error(text: &str) {
    site::write_stderr(&site::error_line(LogLevel::Error, None, "cgi", text));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn how(line: &str) -> How {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.pl");
        std::fs::write(&path, format!("{line}\nprint 1;\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        first_line(&path, "/usr/bin/perl")
    }

    #[test]
    fn first_lines_choose_the_way_to_run() {
        let perl = |taint| How::Perl { taint };
        assert!(how("#!/usr/bin/perl") == perl(zygote::Taint::Off));
        assert!(how("#!/usr/bin/perl -w") == perl(zygote::Taint::Off));
        assert!(how("#!/usr/bin/perl -wT") == perl(zygote::Taint::On));
        assert!(how("#! /usr/bin/perl -t") == perl(zygote::Taint::Warn));
        assert!(how("#!/usr/bin/env perl") == perl(zygote::Taint::Off));
        for line in
            ["#!/bin/sh", "#!/usr/bin/perl -CS", "#!/opt/perl/bin/perl", "#!/usr/bin/perl -w -T"]
        {
            assert!(how(line) == How::Exec, "{line}");
        }
    }

    #[test]
    fn variables_of_perl_ask_for_a_perl_of_their_own() {
        assert!(is_plain(&[b"PATH=/bin", b"PERFORMANCE=1"]));
        assert!(!is_plain(&[b"PERL5LIB=/x"]));
        assert!(!is_plain(&[b"PERL_UNICODE=S"]));
    }
}
