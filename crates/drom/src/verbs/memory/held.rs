//! A perl that waits at its end, so that its memory can be looked at: of a script, or one that has
//! loaded a module and does nothing.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::usage;

const MODULE: &str = include_str!("hold.pl");
/// So often it is looked whether somebody asked for an end.
const LOOK: Duration = Duration::from_millis(50);

/// What the perl is to run.
pub enum What<'a> {
    Script(&'a [String]),
    Module(&'a str),
}

pub struct Held {
    child: Child,
    socket: UnixStream,
    /// Goes away with this.
    _scratch: tempfile::TempDir,
}

impl Held {
    pub fn start(what: &What<'_>) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("no folder for a module can be made: {error}");
        let scratch = tempfile::Builder::new().prefix("drom-").tempdir().map_err(failed)?;
        let folder = scratch.path().join("Drom");
        fs::create_dir(&folder)
            .and_then(|()| fs::write(folder.join("Hold.pm"), MODULE))
            .map_err(failed)?;
        let (socket, theirs) = UnixStream::pair().map_err(|error| format!("no socket: {error}"))?;
        let theirs = OwnedFd::from(theirs);
        let mut perl = Command::new("perl");
        perl.arg("-I").arg(scratch.path()).arg("-MDrom::Hold");
        perl.env("DROM_HOLD", theirs.as_raw_fd().to_string());
        match what {
            What::Script(words) => perl.args(*words),
            // What it prints is no part of the result.
            What::Module(name) => perl
                .args([&format!("-M{name}"), "-e", "0"])
                .stdin(Stdio::null())
                .stdout(std::io::stderr()),
        };
        let descriptor = theirs.as_raw_fd();
        // SAFETY: one call that a forked child may make.
        unsafe { perl.pre_exec(move || inherit(descriptor)) };
        let child = perl
            .spawn()
            .map_err(|error| format!("perl cannot be started: {error}; is it in PATH?"))?;
        socket.set_read_timeout(Some(LOOK)).map_err(|error| format!("no time for it: {error}"))?;
        Ok(Self { child, socket, _scratch: scratch })
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Whether it has come to its end and waits there; a script that ended otherwise does not.
    pub fn at_end(&mut self, stop: &AtomicBool) -> bool {
        loop {
            match self.socket.read(&mut [0]) {
                Ok(read) => return read == 1,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if stop.load(Relaxed) {
                        return false;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Lets it go to its end.
    pub fn end(mut self) -> Result<ExitStatus, String> {
        let _ = self.socket.write_all(b"\n");
        let ended = usage::wait(self.child.id());
        ended
            .map(|(status, _)| status)
            .map_err(|error| format!("the program cannot be waited for: {error}"))
    }
}

/// Stays open when it becomes another program.
fn inherit(descriptor: RawFd) -> std::io::Result<()> {
    // SAFETY: changes a flag of a descriptor of this process.
    match unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}
