//! Loads the C shim: the library whose bytes `build.rs` put into this program, and with it libperl.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    io::Write,
    os::fd::{AsRawFd, FromRawFd},
    ptr,
};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libdrom_perl.so"));
const ABI: c_int = 6;

/// Why Perl cannot be served here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    #[error(
        "this drom was built without Perl; install perl and libperl-dev (Debian: \
         apt-get install perl libperl-dev) and build it again"
    )]
    BuiltWithout,
    #[error("libperl cannot be loaded: {0}; install the libperl that drom was built with")]
    Load(String),
    #[error("the Perl shim has another version than this program")]
    Version,
    #[error("perl cannot start: {0}")]
    Start(String),
}

/// Whether this program carries the shim; the library itself may still be missing.
#[must_use]
pub fn available() -> bool {
    !LIBRARY.is_empty()
}

/// Loads libperl into this process. Without this it is loaded when it is used for the first time.
pub fn load() -> Result<(), Unavailable> {
    Shim::load().map(drop)
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    pub ptr: *const u8,
    pub len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Pair {
    pub key: Str,
    pub value: Str,
}

#[repr(C)]
pub struct RunResult {
    pub end: c_int,
    pub status: c_int,
    pub cleanups: c_int,
    pub message: *const u8,
    pub message_len: usize,
}

#[repr(C)]
pub struct SourceText {
    pub package: *const c_char,
    pub text: *const u8,
    pub text_len: usize,
    pub directory: *const c_char,
    pub is_quiet: c_int,
}

#[repr(C)]
pub struct CgiJob {
    pub script: *const c_char,
    pub env: *const *const c_char,
    pub args: *const *const c_char,
    pub perl: *const c_char,
}

pub type CgiNext = extern "C" fn(*mut c_void, *mut CgiJob) -> c_int;
pub type CgiLoaded = extern "C" fn(*mut c_void, *const u8, usize);
type Strings = *const *const c_char;

/// The functions of `shim.h`, by the same names.
pub struct Shim {
    pub start:
        unsafe extern "C" fn(*const c_void, c_int, Strings, Strings, *mut RunResult) -> c_int,
    pub require: unsafe extern "C" fn(*const u8, usize, c_int, *mut RunResult),
    pub resolve: unsafe extern "C" fn(*const u8, usize, *mut c_int, *mut RunResult) -> *mut c_void,
    pub compile: unsafe extern "C" fn(*const SourceText, *mut RunResult) -> *mut c_void,
    pub release: unsafe extern "C" fn(*mut c_void),
    pub unload: unsafe extern "C" fn(*const u8, usize),
    pub run:
        unsafe extern "C" fn(*mut c_void, u64, c_int, *const c_char, *const c_char, *mut RunResult),
    pub cleanup: unsafe extern "C" fn(u64, *mut RunResult),
    pub end: unsafe extern "C" fn(*mut RunResult),
    pub after_fork: unsafe extern "C" fn(),
    pub interrupt: unsafe extern "C" fn(),
    pub position: unsafe extern "C" fn(*mut u8, usize) -> usize,
    pub version: unsafe extern "C" fn() -> *const c_char,
    pub count_ask: unsafe extern "C" fn(c_int),
    pub count_settle: unsafe extern "C" fn(),
    pub refuse: unsafe extern "C" fn(c_int) -> c_int,
    pub zygote_unfit: unsafe extern "C" fn(*mut *const c_char) -> *const c_char,
    pub runner_is_possible: unsafe extern "C" fn() -> c_int,
    pub runner_begin: unsafe extern "C" fn(c_int, c_int) -> c_int,
    pub runner_number: unsafe extern "C" fn() -> c_int,
    pub runner_socket: unsafe extern "C" fn() -> c_int,
    pub runner_may_go_on: unsafe extern "C" fn() -> c_int,
    pub runner_go_on: unsafe extern "C" fn(),
    pub zygote: unsafe extern "C" fn(
        c_int,
        Strings,
        Strings,
        Strings,
        Strings,
        CgiNext,
        Option<CgiLoaded>,
        *mut c_void,
    ) -> c_int,
}

impl Shim {
    /// Loads the library into this process, where it stays.
    pub fn load() -> Result<&'static Self, Unavailable> {
        if LIBRARY.is_empty() {
            return Err(Unavailable::BuiltWithout);
        }
        let handle = open_library().map_err(Unavailable::Load)?;
        // SAFETY: the symbols have the types that shim.h declares; the ABI number is checked first.
        unsafe {
            let abi: unsafe extern "C" fn() -> c_int = symbol(handle, c"drom_abi")?;
            if abi() != ABI {
                return Err(Unavailable::Version);
            }
            Ok(Box::leak(Box::new(Self {
                start: symbol(handle, c"drom_start")?,
                require: symbol(handle, c"drom_require")?,
                resolve: symbol(handle, c"drom_resolve")?,
                compile: symbol(handle, c"drom_compile")?,
                release: symbol(handle, c"drom_release")?,
                unload: symbol(handle, c"drom_unload")?,
                run: symbol(handle, c"drom_run")?,
                cleanup: symbol(handle, c"drom_cleanup")?,
                end: symbol(handle, c"drom_end")?,
                after_fork: symbol(handle, c"drom_after_fork")?,
                interrupt: symbol(handle, c"drom_interrupt")?,
                position: symbol(handle, c"drom_position")?,
                version: symbol(handle, c"drom_version")?,
                count_ask: symbol(handle, c"drom_count_ask")?,
                count_settle: symbol(handle, c"drom_count_settle")?,
                refuse: symbol(handle, c"drom_refuse")?,
                zygote_unfit: symbol(handle, c"drom_zygote_unfit")?,
                runner_is_possible: symbol(handle, c"drom_runner_is_possible")?,
                runner_begin: symbol(handle, c"drom_runner_begin")?,
                runner_socket: symbol(handle, c"drom_runner_socket")?,
                runner_number: symbol(handle, c"drom_runner_number")?,
                runner_may_go_on: symbol(handle, c"drom_runner_may_go_on")?,
                runner_go_on: symbol(handle, c"drom_runner_go_on")?,
                zygote: symbol(handle, c"drom_zygote")?,
            })))
        }
    }
}

/// RTLD_GLOBAL: XS modules find libperl's symbols only when the library that brings them is global.
fn open_library() -> Result<*mut c_void, String> {
    // SAFETY: the name is a C string; the descriptor returned is new and owned here.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"drom-perl-shim".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        std::fs::File::from_raw_fd(fd)
    };
    file.write_all(LIBRARY).map_err(|e| e.to_string())?;
    let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
    // SAFETY: path ends with NUL; the library has no constructors that rely on anything of ours.
    unsafe {
        let handle = libc::dlopen(path.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        if handle.is_null() { Err(last_error()) } else { Ok(handle) }
    }
}

unsafe fn symbol<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F, Unavailable> {
    // SAFETY: the caller names a function whose type is F; dlsym returns its address or NULL.
    unsafe {
        let address = libc::dlsym(handle, name.as_ptr());
        if address.is_null() {
            return Err(Unavailable::Version);
        }
        debug_assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        Ok(ptr::read((&raw const address).cast()))
    }
}

fn last_error() -> String {
    // SAFETY: dlerror returns NULL or a C string that lives until the next dl call of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "no reason given".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}
