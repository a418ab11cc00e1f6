//! The CGI zygote: a perl that waits inside its own start and forks a child for each script.
//! The loop that waits and forks belongs to the server; this is the door into the shim.

use std::{
    ffi::{c_int, c_void},
    os::fd::RawFd,
};

use crate::{
    host::CStrings,
    shim::{CgiJob, Shim, Unavailable},
};

/// A script to run, in the form that perl takes. It is made before the fork: a child pays for each
/// page that it writes to.
pub struct Job {
    /// The script, and what `$^X` says.
    names: CStrings,
    env: CStrings,
    args: CStrings,
}

impl Job {
    /// `env` has `NAME=value`.
    pub fn new<S: AsRef<[u8]>>(script: &[u8], perl: &str, env: &[S], args: &[S]) -> Self {
        Self {
            names: CStrings::new([script, perl.as_bytes()]),
            env: CStrings::new(env),
            args: CStrings::new(args),
        }
    }
}

/// The waiting side, called inside the zygote.
pub trait Wait {
    /// Waits for work and forks; `Some` in a child that is to become the script, `None` to end. In
    /// a child that went on after a script ([`Runner::go_on`]) it is called as for the first time.
    fn next(&mut self, runner: Runner) -> Option<Job>;
    /// In a child, at its end: a file that it had loaded (`Key.pm=/path`).
    fn loaded(&mut self, entry: &[u8]);
}

/// The name that perl starts with is as long as a path can be: the script's name takes its place in
/// memory, because the lexer goes back to that memory when the `use` in which the zygote waits is
/// over.
const PROGRAM_BYTES: usize = libc::PATH_MAX as usize - 1;

/// A child of the zygote that runs one script after another. Between two of them its memory is put
/// back to what the zygote's was before [`Wait::next`] was called for the first time: nothing that
/// Rust or Perl knew of a script is left, and values of that time are there again. What is to be
/// remembered is here, outside of that memory.
#[derive(Clone, Copy)]
pub struct Runner {
    shim: &'static Shim,
}

impl Runner {
    /// In the zygote: whether children can be runners. Not when a module in C was loaded that may
    /// leave something behind that cannot be put back.
    #[must_use]
    pub fn is_possible(self) -> bool {
        // SAFETY: reads what this process wrote.
        unsafe { (self.shim.runner_is_possible)() != 0 }
    }

    /// In the zygote: a module that was loaded and must not be, because it keeps a file open or
    /// asked for what differs from script to script, and the file whose code did that, if known.
    /// Children of this zygote are not what new processes are.
    #[must_use]
    pub fn unfit(self) -> Option<(String, String)> {
        let text = |text: *const std::ffi::c_char| {
            // SAFETY: a string of the shim or of `run`'s arguments, alive as long as `run` runs.
            unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        let mut file = std::ptr::null();
        // SAFETY: `file` is a local; it is set when there is a name.
        let name = unsafe { (self.shim.zygote_unfit)(&raw mut file) };
        (!name.is_null()).then(|| (text(name), text(file)))
    }

    /// In a child just forked: keeps the socket (see [`Runner::socket`]) and closes every other
    /// descriptor, whoever owns it, so that owners must be forgotten. False: it can only end.
    #[must_use]
    pub fn begin(self, socket: RawFd, number: u32) -> bool {
        // SAFETY: descriptors are numbers; the caller forgets their owners.
        unsafe { (self.shim.runner_begin)(socket, number as c_int) != 0 }
    }

    /// Where a runner's jobs come from. `None`: this process is none.
    #[must_use]
    pub fn socket(self) -> Option<RawFd> {
        // SAFETY: reads what this process wrote.
        let socket = unsafe { (self.shim.runner_socket)() };
        (socket >= 0).then_some(socket)
    }

    /// What [`Runner::begin`] was told.
    #[must_use]
    pub fn number(self) -> u32 {
        // SAFETY: as in `socket`, which tells that there is a number.
        self.socket().map_or(0, |_| unsafe { (self.shim.runner_number)() } as u32)
    }

    /// After a script: whether it left nothing that cannot be put back.
    #[must_use]
    pub fn may_go_on(self) -> bool {
        // SAFETY: asks the kernel about this process.
        unsafe { (self.shim.runner_may_go_on)() != 0 }
    }

    /// Closes what the script had open and goes back to [`Wait::next`]. Returns when that cannot
    /// be: the process is to end. Only after [`Runner::may_go_on`], and only from a place that has
    /// nothing to clean up.
    pub fn go_on(self) {
        // SAFETY: frames between here and `run` are left as at the end of a process: their values
        // are overwritten, not dropped, and nothing outside of this memory refers to them.
        unsafe { (self.shim.runner_go_on)() }
    }
}

struct State<'a> {
    wait: &'a mut dyn Wait,
    job: Option<Job>,
    runner: Runner,
}

/// Starts perl and waits inside it. Returns in each child with the exit status of its script, and
/// never in the zygote itself. `switches` are -T, -t or nothing; `inc` is what @INC is to be, empty
/// for libperl's own; `preload` are modules to load first.
pub fn run(
    switches: &[&str],
    inc: &[String],
    preload: &[String],
    wait: &mut dyn Wait,
) -> Result<(i32, Runner), Unavailable> {
    let shim = Shim::load()?;
    let runner = Runner { shim };
    let args = ["perl"].into_iter().chain(switches.iter().copied());
    let program = format!("{:/>width$}", "/dev/null", width = PROGRAM_BYTES);
    let argv = CStrings::new(args.chain(["-MDrom::Zygote", &program]));
    let (preload, inc) = (CStrings::new(preload), CStrings::new(inc));
    let mut state = State { wait, job: None, runner };
    // SAFETY: all arrays live until the function returns or the process ends; `state` is reached only
    // through the two callbacks, on this thread, while the call runs.
    let status = unsafe {
        (shim.zygote)(
            argv.count(),
            argv.as_ptr(),
            environ.cast_const().cast(),
            preload.as_ptr(),
            inc.as_ptr(),
            next,
            Some(loaded),
            (&raw mut state).cast(),
        )
    };
    std::mem::forget((state.job, argv, preload, inc)); // the process ends: freeing copies pages
    Ok((status, runner))
}

extern "C" fn next(state: *mut c_void, job: *mut CgiJob) -> c_int {
    // SAFETY: `state` is the State of `run`, alive on its stack frame; `job` is a local of the shim.
    let (state, job) = unsafe { (&mut *state.cast::<State>(), &mut *job) };
    let Some(next) = state.wait.next(state.runner) else { return 0 };
    let kept = state.job.insert(next);
    // SAFETY: the array has two strings and a NULL.
    unsafe {
        job.script = *kept.names.as_ptr();
        job.perl = *kept.names.as_ptr().add(1);
    }
    job.env = kept.env.as_ptr();
    job.args = kept.args.as_ptr();
    1
}

extern "C" fn loaded(state: *mut c_void, entry: *const u8, len: usize) {
    // SAFETY: as in `next`; the entry is a string of the shim that lives through the call.
    unsafe {
        let state = &mut *state.cast::<State>();
        state.wait.loaded(std::slice::from_raw_parts(entry, len));
    }
}

unsafe extern "C" {
    static mut environ: *mut *mut std::ffi::c_char;
}
