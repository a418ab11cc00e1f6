//! The CGI zygote: a perl that waits inside its own start and forks a child for each script.
//! The loop that waits and forks belongs to the server; this is the door into the shim.

use std::ffi::{c_int, c_void};

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
    /// Waits for work and forks; `Some` in a child that is to become the script, `None` to end.
    fn next(&mut self) -> Option<Job>;
    /// In a child, at its end: a file that it had loaded (`Key.pm=/path`).
    fn loaded(&mut self, entry: &[u8]);
}

/// The name that perl starts with is as long as a path can be: the script's name takes its place in
/// memory, because the lexer goes back to that memory when the `use` in which the zygote waits is
/// over.
const PROGRAM_BYTES: usize = libc::PATH_MAX as usize - 1;

struct State<'a> {
    wait: &'a mut dyn Wait,
    job: Option<Job>,
}

/// Starts perl and waits inside it. Returns in each child with the exit status of its script, and never
/// in the zygote itself. `switches` are -T, -t or nothing; `inc` is what @INC is to be, empty for
/// libperl's own; `preload` are modules to load first.
pub fn run(
    switches: &[&str],
    inc: &[String],
    preload: &[String],
    wait: &mut dyn Wait,
) -> Result<i32, Unavailable> {
    let shim = Shim::load()?;
    let args = ["perl"].into_iter().chain(switches.iter().copied());
    let program = format!("{:/>width$}", "/dev/null", width = PROGRAM_BYTES);
    let argv = CStrings::new(args.chain(["-MDrom::Zygote", &program]));
    let (preload, inc) = (CStrings::new(preload), CStrings::new(inc));
    let mut state = State { wait, job: None };
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
    Ok(status)
}

extern "C" fn next(state: *mut c_void, job: *mut CgiJob) -> c_int {
    // SAFETY: `state` is the State of `run`, alive on its stack frame; `job` is a local of the shim.
    let (state, job) = unsafe { (&mut *state.cast::<State>(), &mut *job) };
    let Some(next) = state.wait.next() else { return 0 };
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
