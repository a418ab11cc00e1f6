//! Another process's memory, read in batches. A [`Memory`] copies; it never writes, stops or
//! changes the process, and no address that it is given is trusted: what cannot be read is said to
//! be so.

use std::io;

/// Some bytes of the process, and where they go.
pub struct Part<'b> {
    pub at: u64,
    pub into: &'b mut [u8],
    /// All of it was read.
    pub is_read: bool,
}

impl<'b> Part<'b> {
    pub fn new(at: u64, into: &'b mut [u8]) -> Self {
        Self { at, into, is_read: false }
    }
}

pub trait Memory {
    /// Reads all of them, one after the other.
    ///
    /// # Errors
    /// That nothing of the process can be read: it is gone, or it is not ours to read. A part that
    /// is nowhere is no error: it is not read.
    fn read(&self, parts: &mut [Part<'_>]) -> io::Result<()>;

    /// The one number at `at`; `None` where nothing is.
    ///
    /// # Errors
    /// As above.
    fn word(&self, at: u64) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        let is_read = self.bytes(at, &mut bytes)?;
        Ok(is_read.then(|| u64::from_le_bytes(bytes)))
    }

    /// # Errors
    /// As above.
    fn bytes(&self, at: u64, into: &mut [u8]) -> io::Result<bool> {
        let mut parts = [Part::new(at, into)];
        self.read(&mut parts)?;
        Ok(parts[0].is_read)
    }
}

impl<M: Memory> Memory for &M {
    fn read(&self, parts: &mut [Part<'_>]) -> io::Result<()> {
        (*self).read(parts)
    }
}

/// Linux's limit of parts in one call.
const PARTS_MAX: usize = 1_024;

/// A living process.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    pub pid: libc::pid_t,
}

impl Memory for Remote {
    fn read(&self, parts: &mut [Part<'_>]) -> io::Result<()> {
        for parts in parts.chunks_mut(PARTS_MAX) {
            let mut from = 0;
            // The kernel stops at the first part that it cannot read: go on behind that.
            while from < parts.len() {
                from += self.read_some(&mut parts[from..])? + 1;
            }
        }
        Ok(())
    }
}

impl Remote {
    /// How many of them were read before one that could not be.
    fn read_some(&self, parts: &mut [Part<'_>]) -> io::Result<usize> {
        let mut local = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS_MAX];
        let mut remote = local;
        for (at, part) in parts.iter_mut().enumerate() {
            local[at].iov_base = part.into.as_mut_ptr().cast();
            remote[at].iov_base = part.at as *mut libc::c_void;
            (local[at].iov_len, remote[at].iov_len) = (part.into.len(), part.into.len());
        }
        let count = parts.len() as libc::c_ulong;
        // SAFETY: the local parts are exclusively borrowed buffers of the lengths that are told;
        // the addresses on the other side are the kernel's to check.
        let got = unsafe {
            libc::process_vm_readv(self.pid, local.as_ptr(), count, remote.as_ptr(), count, 0)
        };
        let Ok(mut got) = usize::try_from(got) else {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EFAULT) { Ok(0) } else { Err(error) };
        };
        for (at, part) in parts.iter_mut().enumerate() {
            match got.checked_sub(part.into.len()) {
                None => return Ok(at),
                Some(rest) => got = rest,
            }
            part.is_read = true;
        }
        Ok(parts.len())
    }
}
