//! The interpreter of a worker: start, compile, run. One per process; forked workers inherit it.

use std::{
    ffi::{CString, c_int, c_void},
    fs::File,
    io::{Read, Seek, Write},
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    ptr::NonNull,
};

use crate::{
    Exchange,
    host::{self, CStrings},
    shim::{RunResult, Shim, SourceText, Unavailable},
};

/// A running libperl.
pub struct Interpreter {
    shim: &'static Shim,
}

/// Keeps what is written to standard error meanwhile.
struct Said {
    file: File,
    usual: OwnedFd,
}

impl Said {
    /// `None` when there is no room for it: then it goes where it always goes.
    fn begin() -> Option<Self> {
        let usual = std::io::stderr().as_fd().try_clone_to_owned().ok()?;
        // SAFETY: the name is a C string; the descriptor is new, and its duplicate takes the place
        // of standard error, which `usual` keeps.
        unsafe {
            let fd = libc::memfd_create(c"drom-said".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return None;
            }
            let file = File::from_raw_fd(fd);
            (libc::dup2(fd, 2) == 2).then_some(Self { file, usual })
        }
    }

    fn end(mut self) -> Vec<u8> {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(self.usual.as_raw_fd(), 2) };
        let mut text = Vec::new();
        let _ = self.file.rewind(); // a file in memory; what cannot be read was not said
        let _ = self.file.read_to_end(&mut text);
        text
    }
}

/// A compiled sub or script that [`Interpreter::run`] takes. Lives as long as the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler(NonNull<c_void>);

/// What a handler's name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub handler: Handler,
    /// It wants its class as first argument.
    pub method: bool,
    /// Its source speaks the language of mod_perl 1 only.
    pub mod_perl_1: bool,
}

/// What a handler finds around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFlags {
    pub setup_env: bool,
    pub global_request: bool,
    pub script_io: bool,
    pub mod_perl_1: bool,
    pub method: bool,
    /// PerlRun: libraries that are no modules are required again by the next request.
    pub once: bool,
}

/// One run of a handler.
pub struct Call<'a> {
    pub handler: Handler,
    /// Never 0, never used twice in one process.
    pub id: u64,
    pub flags: RunFlags,
    /// Folder to run in, when the tier asks for one.
    pub directory: Option<&'a std::ffi::CStr>,
    /// What `$0` is meanwhile, for a script.
    pub program: Option<&'a std::ffi::CStr>,
}

/// A script's text, wrapped into a sub `handler` of `package`.
pub struct Source<'a> {
    pub package: &'a str,
    pub text: &'a [u8],
    pub directory: Option<&'a std::ffi::CStr>,
    /// Compiled as under `no warnings`, unless the text asks for them.
    pub quiet: bool,
}

/// How Perl came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Returned(i32),
    Exited(i32),
    Died(Vec<u8>),
    TimedOut(Vec<u8>),
}

/// What may be asked of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Counting {
    /// From zero; where it is on it stays as it is.
    On = 1,
    /// The counts are a sealed file in memory, [`COUNTS`], among the process's descriptors.
    Off = 2,
    /// And that file goes.
    Forget = 3,
}

/// What the file of counts is called.
pub const COUNTS: &str = "drom-counts";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    /// [`Interpreter::cleanup`] has work to do for this request.
    pub cleanups: bool,
}

impl Interpreter {
    /// Starts perl with the given switches (`-w`, `-T`, `-Mstrict`, ...).
    pub fn start(switches: &[String]) -> Result<Self, Unavailable> {
        let shim = Shim::load()?;
        let fixed = ["-e".to_owned(), "0".to_owned()];
        let args = ["drom".to_owned()].into_iter().chain(switches.iter().cloned()).chain(fixed);
        // Perl keeps pointers into argv ($0 is written there), so these live as long as the process.
        let argv: &'static CStrings = Box::leak(Box::new(CStrings::new(args)));
        let mut result = RunResult::empty();
        let said = Said::begin();
        // SAFETY: argv and environ are NULL-terminated arrays of C strings that stay; called once.
        let failed = unsafe {
            (shim.start)(
                host::host(),
                argv.count(),
                argv.as_ptr(),
                environ.cast_const().cast(),
                &raw mut result,
            )
        };
        let said = said.map(Said::end).unwrap_or_default();
        if failed == 0 {
            // A standard error that cannot be written has nowhere to complain.
            let _ = std::io::stderr().write_all(&said);
            return Ok(Self { shim });
        }
        // What perl says of its switches is in no variable of its.
        let text = if result.message().is_empty() { &said } else { result.message() };
        Err(Unavailable::Start(String::from_utf8_lossy(text).trim_end().to_owned()))
    }

    /// `PerlModule` and `PerlRequire`. The error is Perl's own text.
    pub fn require(&self, what: &str, is_file: bool) -> Result<(), Vec<u8>> {
        let mut result = RunResult::empty();
        // SAFETY: `what` lives through the call; this thread owns the interpreter.
        unsafe {
            (self.shim.require)(what.as_ptr(), what.len(), c_int::from(is_file), &raw mut result);
        }
        match result.take(0).end {
            End::Returned(_) => Ok(()),
            End::Exited(status) => Err(format!("exit({status}) was called").into_bytes()),
            End::Died(text) | End::TimedOut(text) => Err(text),
        }
    }

    /// Finds the sub that a handler's name means, loading its module when needed.
    pub fn resolve(&self, name: &str) -> Result<Resolved, Vec<u8>> {
        let mut result = RunResult::empty();
        let mut flags: c_int = 0;
        // SAFETY: `name` lives through the call; this thread owns the interpreter.
        let found = unsafe {
            (self.shim.resolve)(name.as_ptr(), name.len(), &raw mut flags, &raw mut result)
        };
        match NonNull::new(found) {
            Some(found) => Ok(Resolved {
                handler: Handler(found),
                method: flags & 16 != 0,
                mod_perl_1: flags & 8 != 0,
            }),
            None => Err(result.error_text()),
        }
    }

    pub fn compile(&self, source: &Source<'_>) -> Result<Handler, Vec<u8>> {
        let package = c_string(source.package);
        let raw = SourceText {
            package: package.as_ptr(),
            text: source.text.as_ptr(),
            text_len: source.text.len(),
            directory: source.directory.map_or(std::ptr::null(), std::ffi::CStr::as_ptr),
            is_quiet: c_int::from(source.quiet),
        };
        let mut result = RunResult::empty();
        // SAFETY: everything `raw` points to lives through the call.
        let found = unsafe { (self.shim.compile)(&raw const raw, &raw mut result) };
        NonNull::new(found).map(Handler).ok_or_else(|| result.error_text())
    }

    /// For tests: the shim's `call`th request for a descriptor or memory from now on is refused; 0:
    /// none. Returns how many there were since the last time this was said.
    #[doc(hidden)]
    pub fn refuse(&self, call: i32) -> i32 {
        // SAFETY: sets two numbers that only this thread reads.
        unsafe { (self.shim.refuse)(call) }
    }

    /// Gives a handler back; it must not be run again.
    pub fn release(&self, handler: Handler) {
        // SAFETY: the handler holds one reference, which ends here.
        unsafe { (self.shim.release)(handler.0.as_ptr()) }
    }

    /// Forgets everything in a package (not in the packages inside it).
    pub fn unload(&self, package: &str) {
        // SAFETY: `package` lives through the call.
        unsafe { (self.shim.unload)(package.as_ptr(), package.len()) }
    }

    pub fn run(&self, call: &Call<'_>, exchange: &mut dyn Exchange) -> Outcome {
        let mut result = RunResult::empty();
        let pointer = |text: Option<&std::ffi::CStr>| text.map_or(std::ptr::null(), |t| t.as_ptr());
        let (directory, program) = (pointer(call.directory), pointer(call.program));
        host::with_exchange(call.id, exchange, || {
            // SAFETY: the handler is alive, the strings live through the call, and Perl reaches the
            // exchange only through the host functions, on this thread.
            unsafe {
                (self.shim.run)(
                    call.handler.0.as_ptr(),
                    call.id,
                    call.flags.bits(),
                    directory,
                    program,
                    &raw mut result,
                );
            }
        });
        let status = result.status;
        result.take(status)
    }

    /// Runs what the request registered for its end.
    pub fn cleanup(&self, id: u64, exchange: &mut dyn Exchange) {
        let mut result = RunResult::empty();
        host::with_exchange(id, exchange, || {
            // SAFETY: as in `run`.
            unsafe { (self.shim.cleanup)(id, &raw mut result) }
        });
    }

    /// Runs the END blocks of start-up code; the process is about to end.
    pub fn end(&self) {
        let mut result = RunResult::empty();
        // SAFETY: this thread owns the interpreter.
        unsafe { (self.shim.end)(&raw mut result) }
    }

    /// Of perl, as in "v5.36.0".
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: the shim returns a constant.
        let text = unsafe { std::ffi::CStr::from_ptr((self.shim.version)()) };
        text.to_string_lossy().into_owned()
    }

    /// Scripts that start-up code asked to preload (`class\0file\0uri`), in order.
    pub fn take_preloads(&self) -> Vec<Vec<u8>> {
        host::take_preloads()
    }

    /// Counts calls and statements for a while ([`Counting`]): in a signal handler or in another
    /// thread. What is asked is done between two operators, or by [`Self::settle_counting`].
    #[must_use]
    pub fn count_function(&self) -> unsafe extern "C" fn(c_int) {
        self.shim.count_ask
    }

    /// Does what was asked of the counter; no Perl runs.
    pub fn settle_counting(&self) {
        // SAFETY: this thread owns the interpreter.
        unsafe { (self.shim.count_settle)() }
    }

    pub fn after_fork(&self) {
        // SAFETY: called in the child, on its only thread.
        unsafe { (self.shim.after_fork)() }
    }

    /// Two functions for signal handlers: stop the running request; write "file:line" into a buffer.
    #[must_use]
    pub fn signal_functions(
        &self,
    ) -> (unsafe extern "C" fn(), unsafe extern "C" fn(*mut u8, usize) -> usize) {
        (self.shim.interrupt, self.shim.position)
    }
}

impl RunFlags {
    fn bits(self) -> c_int {
        c_int::from(self.setup_env)
            | c_int::from(self.global_request) << 1
            | c_int::from(self.script_io) << 2
            | c_int::from(self.mod_perl_1) << 3
            | c_int::from(self.method) << 4
            | c_int::from(self.once) << 5
    }
}

impl RunResult {
    fn empty() -> Self {
        Self { end: 0, status: 0, cleanups: 0, message: std::ptr::null(), message_len: 0 }
    }

    fn message(&self) -> &[u8] {
        if self.message.is_null() {
            return &[];
        }
        // SAFETY: the shim's text lives until the next entry; callers copy it before.
        unsafe { std::slice::from_raw_parts(self.message, self.message_len) }
    }

    fn error_text(&self) -> Vec<u8> {
        match self.message() {
            [] => b"perl gave no reason".to_vec(),
            text => text.to_vec(),
        }
    }

    fn take(&self, status: i32) -> Outcome {
        let end = match self.end {
            1 => End::Died(self.error_text()),
            2 => End::Exited(status),
            3 => End::TimedOut(self.error_text()),
            _ => End::Returned(status),
        };
        Outcome { end, cleanups: self.cleanups != 0 }
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).expect("NUL bytes were removed")
}

unsafe extern "C" {
    static mut environ: *mut *mut std::ffi::c_char;
}
