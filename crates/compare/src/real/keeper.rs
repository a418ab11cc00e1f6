//! The process between us and a server: every orphan of the server becomes its child, so that all
//! that the server started, in whatever session, is below it and belongs to this start alone. It
//! tells how the server ended, waits for what is left, and ends as the last.
//!
//! It is a fork of ours that never execs: between `fork` and `_exit` it makes system calls and
//! nothing else. When we are killed the kernel kills it too, and sends SIGTERM to the server.

use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, Command, ExitStatus},
};

use drom_observe::{Process, tree};

/// A program and everything below it.
pub struct Kept {
    keeper: Child,
    root: i32,
    /// The number of the root, then its wait status when it has ended.
    told: File,
    ended: Option<ExitStatus>,
}

impl Kept {
    /// Starts the command in a session of its own, below a keeper of its own.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let (read, write) = pipe()?;
        let tell = write.as_raw_fd();
        // SAFETY: `keep` only makes system calls, as it must between fork and exec.
        unsafe { command.pre_exec(move || keep(tell)) };
        let keeper = command.spawn()?;
        drop(write);
        let mut told = File::from(read);
        let mut root = [0; 4];
        told.read_exact(&mut root)?;
        Ok(Self { keeper, root: i32::from_ne_bytes(root), told, ended: None })
    }

    /// How the program itself ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() && is_readable(&self.told) {
            let mut status = [0; 4];
            let told = self.told.read_exact(&mut status);
            // A keeper that was killed could not tell.
            let status = told.map_or(libc::SIGKILL, |()| i32::from_ne_bytes(status));
            self.ended = Some(ExitStatus::from_raw(status));
        }
        self.ended
    }

    /// The program and all it started are gone, and so is the keeper.
    pub fn is_over(&mut self) -> bool {
        matches!(self.keeper.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// All that live below the keeper. What orphans used that are dead is the root's.
    pub fn processes(&self) -> Vec<Process> {
        let keeper = self.keeper.id() as i32;
        let (own, mut found): (Vec<_>, Vec<_>) =
            tree(keeper).into_iter().partition(|process| process.pid == keeper);
        let reaped: f64 = own.iter().map(|keeper| keeper.cpu_s).sum();
        if let Some(root) = found.iter_mut().find(|process| process.pid == self.root) {
            root.cpu_s += reaped;
        }
        found
    }

    /// To the program alone, if it lives.
    pub fn signal_root(&mut self, signal: i32) {
        if self.ended().is_none() {
            send(self.root, signal);
        }
    }

    pub fn signal_all(&self, signal: i32) {
        self.processes().iter().for_each(|process| send(process.pid, signal));
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: a signal to a process below our own keeper; no memory is passed.
    unsafe { libc::kill(pid, signal) };
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors, which are owned here alone from then on.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

fn is_readable(file: &File) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, no waiting.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

/// In the child that `Command` forked: returns in a child of that, which will be the program.
fn keep(tell: RawFd) -> io::Result<()> {
    // SAFETY: calls that are safe between fork and exec; no memory is passed.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
                Ok(())
            }
            root => watch(root, tell),
        }
    }
}

/// Waits for all below it and ends.
fn watch(root: i32, tell: RawFd) -> ! {
    // SAFETY: system calls on descriptors and places of this function's own; `_exit` runs nothing
    // of the program that this is a copy of.
    unsafe {
        libc::dup2(tell, 0);
        // `Command` waits until the last copy of its own pipe is closed.
        if libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) != 0 {
            (1..65_536).for_each(|fd| {
                libc::close(fd);
            });
        }
        libc::write(0, (&raw const root).cast(), 4);
        loop {
            let mut status = 0;
            let pid = libc::waitpid(-1, &raw mut status, 0);
            if pid == root {
                libc::write(0, (&raw const status).cast(), 4);
            }
            if pid < 0 && *libc::__errno_location() != libc::EINTR {
                libc::_exit(0);
            }
        }
    }
}
