//! A scripted server in a process of its own, so that it can be stopped as a whole.

use std::{
    io,
    net::SocketAddr,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
};

use crate::{
    peer::Ledger,
    script::Script,
    serve::{Serve, Signs},
    server::{Places, listen},
};

/// A running server; it is killed when this is dropped, or when the thread that started it ends.
#[derive(Debug)]
pub struct Process {
    places: Places,
    pid: libc::pid_t,
    _stop: UnixStream,
}

impl Process {
    /// Starts one. It keeps its counts to itself.
    pub fn start(script: Script) -> io::Result<Self> {
        let (listeners, places) = listen(script.backlog)?;
        let (stop, told) = UnixStream::pair()?;
        let ledger = Ledger::new(script, Arc::new(Mutex::default()));
        let serve = Serve::new(listeners, ledger, told, Arc::new(Signs::default()))?;
        // SAFETY: the child runs only the loop above, which takes no lock that another thread could
        // hold (the C library keeps its allocator usable after a fork), and leaves by `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: no pointers are passed.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0, 0, 0) };
                serve.close_others();
                let status = i32::from(serve.run().is_err());
                // SAFETY: ends this process, without the parent's handlers.
                unsafe { libc::_exit(status) }
            }
            pid => Ok(Self { places, pid, _stop: stop }),
        }
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.places.address
    }

    /// Stops it, as a shell does by Ctrl-Z. The kernel still accepts, and takes requests.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: no pointers; the child is ours and not waited for before the drop.
        let status = unsafe { libc::kill(self.pid, signal) };
        assert_eq!(status, 0, "the server's process is there");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: the child is ours; no status is asked for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}
