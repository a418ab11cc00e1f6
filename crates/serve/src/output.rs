//! The answer on its way to the client: what is not written yet, in memory or in a scratch file, and files
//! that are sent as they are. Effects: writes to one socket.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::FileExt,
    },
    sync::Arc,
};

use crate::sys;

/// Bytes and files still to be written, in order.
#[derive(Default)]
pub struct Output {
    parts: VecDeque<Part>,
    /// Bytes of `parts` that are in memory.
    in_memory: usize,
    /// More than this in memory and bytes go to the scratch file.
    memory_max: usize,
}

enum Part {
    Bytes {
        bytes: Vec<u8>,
        sent: usize,
    },
    File {
        file: Arc<File>,
        offset: u64,
        left: u64,
    },
    /// A scratch file of ours, still growing at its end.
    Spill {
        file: File,
        offset: u64,
        end: u64,
    },
}

/// How far writing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything is with the kernel.
    Done,
    /// The socket is full.
    Blocked,
}

impl Output {
    pub fn new(memory_max: usize) -> Self {
        Self { memory_max, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that wait in memory.
    pub fn in_memory(&self) -> usize {
        self.in_memory
    }

    /// Bytes that wait anywhere, files as they are excepted.
    pub fn waiting(&self) -> u64 {
        let spilled = self.parts.iter().map(|p| match p {
            Part::Spill { offset, end, .. } => end - offset,
            _ => 0,
        });
        self.in_memory as u64 + spilled.sum::<u64>()
    }

    /// Appends a copy; beyond the memory limit it goes to the scratch file.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(Part::Spill { file, end, .. }) = self.parts.back_mut() {
            file.write_all_at(bytes, *end)?;
            *end += bytes.len() as u64;
            return Ok(());
        }
        if self.in_memory + bytes.len() > self.memory_max {
            let file = sys::scratch_file()?;
            file.write_all_at(bytes, 0)?;
            self.parts.push_back(Part::Spill { file, offset: 0, end: bytes.len() as u64 });
            return Ok(());
        }
        self.in_memory += bytes.len();
        match self.parts.back_mut() {
            Some(Part::Bytes { bytes: last, .. }) => last.extend_from_slice(bytes),
            _ => self.parts.push_back(Part::Bytes { bytes: bytes.to_vec(), sent: 0 }),
        }
        Ok(())
    }

    pub fn push_file(&mut self, file: Arc<File>, offset: u64, len: u64) {
        if len > 0 {
            self.parts.push_back(Part::File { file, offset, left: len });
        }
    }

    /// Puts what another output holds after this one.
    pub fn append(&mut self, other: Self) {
        self.in_memory += other.in_memory;
        self.parts.extend(other.parts);
    }

    /// Writes as much as the socket takes.
    pub fn write_to(&mut self, socket: RawFd) -> io::Result<Progress> {
        while let Some(part) = self.parts.front_mut() {
            let before = part.in_memory();
            let result = part.write_to(socket);
            self.in_memory -= before - part.in_memory();
            match result {
                Ok(true) => {
                    self.parts.pop_front();
                }
                Ok(false) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Blocked),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Progress::Done)
    }
}

impl Part {
    fn in_memory(&self) -> usize {
        match self {
            Self::Bytes { bytes, sent } => bytes.len() - sent,
            _ => 0,
        }
    }

    /// `Ok(true)` when the part is finished.
    fn write_to(&mut self, socket: RawFd) -> io::Result<bool> {
        match self {
            Self::Bytes { bytes, sent } => write_slice(socket, bytes, sent),
            Self::File { file, offset, left } => {
                let wrote = send_file(socket, file, *offset, *left)?;
                if wrote == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file became shorter while it was sent",
                    ));
                }
                *offset += wrote;
                *left -= wrote;
                Ok(*left == 0)
            }
            Self::Spill { file, offset, end } => {
                *offset += send_file(socket, file, *offset, *end - *offset)?;
                Ok(*offset == *end)
            }
        }
    }
}

fn write_slice(socket: RawFd, bytes: &[u8], sent: &mut usize) -> io::Result<bool> {
    *sent += send(socket, &bytes[*sent..])?;
    Ok(*sent == bytes.len())
}

/// One write to a socket, without SIGPIPE.
pub fn send(socket: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the slice is valid for the call.
    let sent =
        unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

fn send_file(socket: RawFd, file: &File, offset: u64, count: u64) -> io::Result<u64> {
    let mut at = offset as i64;
    let count = count.min(1 << 30) as usize;
    // SAFETY: both descriptors are open; `at` is a local.
    let sent = unsafe { libc::sendfile(socket, file.as_raw_fd(), &raw mut at, count) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as u64) }
}

/// Frames a piece of a chunked body.
pub fn push_chunk(output: &mut Output, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut size = [0u8; 20];
    let mut room = &mut size[..];
    // Twenty bytes hold sixteen digits and CR LF.
    let _ = write!(room, "{:x}\r\n", bytes.len());
    let used = 20 - room.len();
    output.push(&size[..used])?;
    output.push(bytes)?;
    output.push(b"\r\n")
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn order_is_kept_across_memory_scratch_and_files() {
        let (mut here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        let mut output = Output::new(10);
        output.push(b"0123456789").unwrap();
        output.push(b"spilled").unwrap();
        output.push(b" more").unwrap();
        let file = Arc::new(tempfile::tempfile().unwrap());
        file.write_all_at(b"abcdef", 0).unwrap();
        output.push_file(file, 2, 3);
        output.push(b"!").unwrap();
        assert_eq!(output.write_to(there.as_raw_fd()).unwrap(), Progress::Done);
        drop(there);
        let mut all = String::new();
        here.read_to_string(&mut all).unwrap();
        assert_eq!(all, "0123456789spilled morecde!");
    }

    #[test]
    fn a_full_socket_blocks_and_goes_on() {
        let (mut here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        let mut output = Output::new(usize::MAX);
        output.push(&vec![7; 4 << 20]).unwrap();
        assert_eq!(output.write_to(there.as_raw_fd()).unwrap(), Progress::Blocked);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            here.read_to_end(&mut all).map(|_| all.len())
        });
        while output.write_to(there.as_raw_fd()).unwrap() == Progress::Blocked {
            std::thread::yield_now();
        }
        drop(there);
        assert_eq!(reader.join().unwrap().unwrap(), 4 << 20);
        assert_eq!(output.in_memory(), 0);
    }

    #[test]
    fn a_chunk_is_framed() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut output = Output::new(1000);
        push_chunk(&mut output, &[b'x'; 26]).unwrap();
        output.write_to(there.as_raw_fd()).unwrap();
        drop(there);
        let mut all = String::new();
        here.read_to_string(&mut all).unwrap();
        assert_eq!(all, format!("1a\r\n{}\r\n", "x".repeat(26)));
    }
}
