//! The tiers that run inside the worker's interpreter: handlers (`modperl`, `perl-script`), Registry and
//! PerlRun. Central noun: [`PerlTier`], which compiles once, remembers, runs, and says what comes next.
//!
//! The steps of a Registry (package name, shebang, `__END__`, recompiling) are those of mod_perl's
//! RegistryCooker, in Rust because in Perl they cost more than the script (reference measurements in
//! docs/decisions/001-worker.md).

use std::{
    collections::HashMap,
    ffi::{CStr, CString, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
};

use drom_perl::{Call, End, Handler, Interpreter, Outcome, Resolved, RunFlags, Source};

use crate::{
    answer::is_known,
    config::{LogLevel, PerlHandler, ScriptFlavour, option, perl_option},
    map::{
        HandlerKind,
        files::{Disk, FileKind, Stat},
    },
    request::{Next, Request},
    script_headers::HeadScan,
    script_source,
};

/// See the module.
pub struct PerlTier {
    pub interpreter: Interpreter,
    subs: HashMap<Arc<str>, Resolved>,
    scripts: HashMap<ScriptFlavour, HashMap<OsString, Script>>,
    next_id: u64,
}

struct Script {
    changed: (i64, i64, u64),
    handler: Option<Handler>,
    package: String,
    /// PerlRun: the text to compile each time.
    text: Vec<u8>,
    is_quiet: bool,
    folder: CString,
    /// Its `$0`.
    name: CString,
}

/// `OK`, `DECLINED` and `DONE` of Apache.
const OK: i32 = 0;
const DECLINED: i32 = -1;
const DONE: i32 = -2;

impl PerlTier {
    pub fn new(interpreter: Interpreter) -> Self {
        Self { interpreter, subs: HashMap::new(), scripts: HashMap::new(), next_id: 0 }
    }

    /// Runs the handlers of a request's place, one after the other as mod_perl does, and leaves the
    /// result in the request. True when [`Self::cleanup`] has work to do for it.
    pub fn run(&mut self, request: &mut Request) -> bool {
        let (handlers, is_script) = match &request.mapped().handler {
            HandlerKind::PerlScript { handlers } => (Arc::clone(handlers), true),
            HandlerKind::ModPerl { handlers } => (Arc::clone(handlers), false),
            _ => return false,
        };
        let policy = Arc::clone(&request.mapped().policy);
        let default =
            if is_script { perl_option::SETUP_ENV | perl_option::GLOBAL_REQUEST } else { 0 };
        let on = |bit| policy.has_perl_option(bit, default);
        let flags = RunFlags {
            setup_env: on(perl_option::SETUP_ENV),
            global_request: on(perl_option::GLOBAL_REQUEST),
            script_io: is_script,
            ..RunFlags::default()
        };
        if on(perl_option::PARSE_HEADERS) {
            request.scan = Some(HeadScan::of_perl());
        }
        self.next_id += 1;
        let id = self.next_id;
        let mut cleanups = false;
        for handler in handlers.iter() {
            let outcome = match handler {
                PerlHandler::Script(flavour) => self.run_script(*flavour, id, flags, request),
                PerlHandler::Sub(name) => self.run_sub(name, false, id, flags, request),
                PerlHandler::OldSub(name) => self.run_sub(name, true, id, flags, request),
            };
            let Some(outcome) = outcome else { break };
            cleanups |= outcome.cleanups;
            if !conclude(outcome, request) {
                break;
            }
        }
        check_head(request);
        cleanups
    }

    pub fn cleanup(&mut self, request: &mut Request) {
        self.interpreter.cleanup(self.next_id, request);
    }

    /// Compiles a script ahead of its first request.
    pub fn preload(&mut self, flavour: ScriptFlavour, path: &Path) -> Result<(), String> {
        use crate::map::files::Files;
        let stat = Disk.stat(path).map_err(|_| format!("cannot read {}", path.display()))?;
        self.script(flavour, path, &stat).map(drop).map_err(|(_, text)| text)
    }

    /// Resolves a handler's name now, so that a wrong one is known at start.
    pub fn resolve(&mut self, name: &Arc<str>) -> Result<Resolved, String> {
        if let Some(found) = self.subs.get(name) {
            return Ok(*found);
        }
        let found = self.interpreter.resolve(name).map_err(|text| shown(&text))?;
        self.subs.insert(Arc::clone(name), found);
        Ok(found)
    }

    /// `old`: named by the directive of mod_perl 1.
    fn run_sub(
        &mut self,
        name: &Arc<str>,
        old: bool,
        id: u64,
        mut flags: RunFlags,
        request: &mut Request,
    ) -> Option<Outcome> {
        match self.resolve(name) {
            Ok(Resolved { handler, method, mod_perl_1 }) => {
                flags.method = method;
                flags.mod_perl_1 = old && mod_perl_1;
                let call = Call { handler, id, flags, directory: None, program: None };
                Some(self.interpreter.run(&call, request))
            }
            Err(why) => {
                request.note(
                    "perl",
                    LogLevel::Error,
                    format!("failed to resolve handler `{name}': {why}"),
                );
                request.next = Next::Error(500);
                None
            }
        }
    }

    fn run_script(
        &mut self,
        flavour: ScriptFlavour,
        id: u64,
        mut flags: RunFlags,
        request: &mut Request,
    ) -> Option<Outcome> {
        let target = request.mapped().target(&Disk).clone();
        if let Err(status) = may_run(flavour, &target, request) {
            request.next = status;
            return None;
        }
        let stat = target.finfo.as_ref()?;
        flags.mod_perl_1 = is_mod_perl_1(flavour);
        flags.once = is_once(flavour);
        let found = self.script(flavour, &target.filename, stat);
        let (handler, folder, name) = match found {
            Ok(script) => (script.handler?, script.folder.clone(), script.name.clone()),
            Err((status, why)) => {
                request.note("perl", LogLevel::Error, &why);
                request.notes.set(b"error-notes", why.as_bytes());
                request.next = Next::Error(status);
                return None;
            }
        };
        if script_source::is_nph(&target.filename) {
            request.ass_backwards = true;
            request.scan = None;
        }
        let directory = changes_folder(flavour).then_some(folder.as_c_str());
        let call = Call { handler, id, flags, directory, program: Some(&name) };
        let mut outcome = self.interpreter.run(&call, request);
        if let End::Returned(_) | End::Exited(_) = outcome.end {
            // What a script returns means nothing.
            outcome.end = End::Returned(status_alone(request));
        }
        if is_once(flavour) {
            self.forget(flavour, &target.filename);
        }
        Some(outcome)
    }

    /// The compiled script: from memory while its file is the same, else compiled now.
    fn script(
        &mut self,
        flavour: ScriptFlavour,
        path: &Path,
        stat: &Stat,
    ) -> Result<&Script, (u16, String)> {
        let changed = (stat.mtime_s, stat.mtime_ns, stat.size);
        let scripts = self.scripts.entry(flavour).or_default();
        let known = scripts.get(path.as_os_str());
        let same = |s: &Script| s.changed == changed || flavour == ScriptFlavour::RegistryBB;
        if !known.is_some_and(|s| s.handler.is_some() && same(s)) {
            self.compile_script(flavour, path, changed)?;
        }
        Ok(&self.scripts[&flavour][path.as_os_str()])
    }

    /// Reads the file again if it is another, and compiles its text.
    fn compile_script(
        &mut self,
        flavour: ScriptFlavour,
        path: &Path,
        changed: (i64, i64, u64),
    ) -> Result<(), (u16, String)> {
        let scripts = self.scripts.entry(flavour).or_default();
        let old = scripts.remove(path.as_os_str());
        let mut script = match old {
            Some(old) if old.changed == changed => old,
            Some(Script { handler: Some(handler), .. }) => {
                self.interpreter.release(handler);
                read_script(flavour, path, changed)?
            }
            _ => read_script(flavour, path, changed)?,
        };
        let directory = changes_folder(flavour).then_some(script.folder.as_c_str());
        let handler = compile(&self.interpreter, &script, directory).map_err(|text| (500, text))?;
        script.handler = Some(handler);
        scripts.insert(path.as_os_str().to_owned(), script);
        Ok(())
    }

    /// PerlRun: the package and the sub go after each run; the text stays.
    fn forget(&mut self, flavour: ScriptFlavour, path: &Path) {
        let scripts = self.scripts.get_mut(&flavour);
        if let Some(script) = scripts.and_then(|s| s.get_mut(path.as_os_str())) {
            if let Some(handler) = script.handler.take() {
                self.interpreter.release(handler);
            }
            self.interpreter.unload(&script.package);
        }
    }
}

fn compile(
    interpreter: &Interpreter,
    script: &Script,
    directory: Option<&CStr>,
) -> Result<Handler, String> {
    let source =
        Source { package: &script.package, text: &script.text, directory, quiet: script.is_quiet };
    interpreter.compile(&source).map_err(|text| shown(&text))
}

fn read_script(
    flavour: ScriptFlavour,
    path: &Path,
    changed: (i64, i64, u64),
) -> Result<Script, (u16, String)> {
    let text = std::fs::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => (403, format!("{}: {e}", path.display())),
        std::io::ErrorKind::NotFound => (404, format!("{}: {e}", path.display())),
        _ => (500, format!("{}: {e}", path.display())),
    })?;
    let package = script_source::package(flavour, path);
    let wrapped = script_source::wrap(flavour, &package, path, &text);
    let folder = path.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
    let folder = CString::new(folder).unwrap_or_default();
    let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    let is_quiet = script_source::is_quiet(flavour);
    Ok(Script { changed, handler: None, package, text: wrapped, is_quiet, folder, name })
}

/// The checks before a script is looked at: what stands in for a run, if they fail.
fn may_run(
    flavour: ScriptFlavour,
    target: &crate::map::Target,
    request: &Request,
) -> Result<(), Next> {
    let name = target.filename.display();
    let Some(stat) = &target.finfo else {
        request.note("perl", LogLevel::Error, format!("{name} not found or unable to stat"));
        return Err(Next::Decline);
    };
    if stat.kind != FileKind::File {
        return Err(Next::Decline);
    }
    let executable = stat.mode & 0o111 != 0;
    if !request.mapped().policy.has_option(option::EXEC_CGI) {
        request.note(
            "perl",
            LogLevel::Error,
            format!("Options ExecCGI is off in this directory: {name}"),
        );
        return Err(Next::Error(403));
    }
    if is_mod_perl_1(flavour) && !executable {
        request.note(
            "perl",
            LogLevel::Error,
            format!("file permissions deny server execution: {name}"),
        );
        return Err(Next::Error(403));
    }
    Ok(())
}

/// A script that set a status and printed nothing leaves the answer to the server, as in mod_perl.
/// Not one whose status was read from what it printed: mod_perl reads that when the script is over.
fn status_alone(request: &Request) -> i32 {
    let silent = !request.head_sent && request.body_sent == 0 && !request.printed_head;
    let open =
        request.next == Next::Finish && request.scan.as_ref().is_none_or(HeadScan::is_untouched);
    match request.status {
        ..300 => OK, // no page says more than that
        status if silent && open => i32::from(status),
        _ => OK,
    }
}

/// Takes what a handler left. True when the next handler of the list is to run.
fn conclude(outcome: Outcome, request: &mut Request) -> bool {
    match outcome.end {
        End::Returned(OK) => true,
        End::Exited(_) => true, // exit ends a handler as return OK does
        End::Returned(DECLINED) => {
            let nothing = !request.head_sent && request.held.is_empty();
            if nothing && request.next == Next::Finish {
                request.next = Next::Decline;
            }
            true
        }
        End::Returned(DONE) => false,
        // HTTP_OK: the answer is what was printed.
        End::Returned(200) if request.head_sent || request.body_sent > 0 => false,
        End::Returned(status) => {
            let status = u16::try_from(status).ok().filter(|&s| is_known(s));
            request.next = Next::Error(status.unwrap_or(500));
            false
        }
        End::Died(text) => {
            let text = shown(&text);
            request.note("perl", LogLevel::Error, &text);
            request.notes.set(b"error-notes", text.as_bytes());
            request.next = Next::Error(500);
            false
        }
        End::TimedOut(text) => {
            let line = String::from_utf8_lossy(request.request_line()).into_owned();
            let (why, status) = match crate::crisis::is_server_ending() {
                true => ("the server's master is gone and the request", 503),
                false => ("the request ran too long and", 504),
            };
            let text = format!("{why} was {}: {line}", shown(&text));
            request.note("perl", LogLevel::Error, &text);
            request.next = Next::Error(status);
            false
        }
    }
}

/// Output that was to begin with a head and did not.
fn check_head(request: &mut Request) {
    if request.next == Next::Finish {
        request.settle_head();
    }
    let unfinished = request.scan.as_ref().filter(|s| !s.is_untouched()).map(HeadScan::end);
    let Some(bad) = request.bad_head.take().or(unfinished) else { return };
    if request.next == Next::Finish {
        let name = String::from_utf8_lossy(request.filename()).into_owned();
        request.note("perl", LogLevel::Error, format!("{name} did not send an HTTP header: {bad}"));
        request.next = Next::Error(500);
    }
}

fn is_mod_perl_1(flavour: ScriptFlavour) -> bool {
    matches!(flavour, ScriptFlavour::ApacheRegistry | ScriptFlavour::ApachePerlRun)
}

fn is_once(flavour: ScriptFlavour) -> bool {
    use ScriptFlavour as F;
    matches!(flavour, F::PerlRun | F::PerlRunPrefork | F::ApachePerlRun)
}

/// mod_perl 1 and the Prefork variants run a script in its own folder.
fn changes_folder(flavour: ScriptFlavour) -> bool {
    use ScriptFlavour as F;
    matches!(flavour, F::RegistryPrefork | F::PerlRunPrefork) || is_mod_perl_1(flavour)
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim_end().to_owned()
}
