//! What a script says on its standard error, as lines of the error log: [`Errors`], a pipe for
//! each request.
//!
//! Not the log itself: a script may open /dev/stderr, and `>` would empty it. With a pipe of its
//! own a line also tells whose request it was. What still holds the pipe when the answer is done,
//! a program left in the background, goes to the spawner, as [`super::job::Leftover`].

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use super::job::Leftover;
use crate::{config::LogLevel, site, sys};

/// A longer line is written in pieces.
const LINE_MAX: usize = 8192;
/// Who says things without end must not keep its reader from everything else.
pub const TURN_BYTES: usize = 8192;
/// What a pipe holds: all that had been said before.
pub const ALL_BYTES: usize = 65536;

pub struct Errors {
    pub pipe: OwnedFd,
    /// A line whose end has not come.
    pub begun: Vec<u8>,
}

/// Whose standard error it is.
pub struct Speaker<'a> {
    pub client: Option<SocketAddr>,
    pub script: &'a [u8],
    /// The server's `LogLevel`.
    pub level: LogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Nothing,
    Something,
    /// Nobody can say anything more, and the last line is told.
    End,
}

impl Errors {
    /// With the script's end.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (pipe, input) = sys::pipe_to_watch()?;
        Ok((Self { pipe, begun: Vec::new() }, input))
    }

    /// Takes what is there, up to a limit, into the error log: "what was said: script".
    pub fn log(&mut self, most: usize, speaker: &Speaker) -> Heard {
        let mut lines = Vec::new();
        let is_logged = LogLevel::Error <= speaker.level;
        let heard = self.read(most, |said| {
            if !is_logged {
                return;
            }
            let text = [said, b": ", speaker.script].concat();
            let line = site::error_line(LogLevel::Error, speaker.client, "cgi", text);
            lines.extend_from_slice(&line);
            lines.push(b'\n');
        });
        if lines.pop().is_some() {
            site::write_stderr(&lines);
        }
        heard
    }

    /// Has a spawner hear what comes from now on.
    pub fn hand_on(&self, speaker: &Speaker, jobs: RawFd) -> io::Result<()> {
        let client = speaker.client.map(|client| client.to_string()).unwrap_or_default();
        let (client, script, begun) = (client.as_bytes(), speaker.script, &self.begun[..]);
        let bytes = Leftover { client, script, begun }.encode();
        sys::send_fds(jobs, &bytes, &[], &[self.pipe.as_raw_fd()])
    }

    fn read(&mut self, most: usize, mut tell: impl FnMut(&[u8])) -> Heard {
        let mut buffer = [0; 4096];
        let mut heard = Heard::Nothing;
        for _ in 0..most.div_ceil(buffer.len()) {
            match sys::read(self.pipe.as_raw_fd(), &mut buffer) {
                Ok(0) => return self.end(tell),
                Ok(got) => {
                    self.take(&buffer[..got], &mut tell);
                    heard = Heard::Something;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return heard,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.end(tell),
            }
        }
        heard
    }

    fn end(&mut self, mut tell: impl FnMut(&[u8])) -> Heard {
        if !self.begun.is_empty() {
            tell(&std::mem::take(&mut self.begun));
        }
        Heard::End
    }

    fn take(&mut self, bytes: &[u8], tell: &mut impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.begun.len() >= LINE_MAX {
                let line = self.begun.strip_suffix(b"\n").unwrap_or(&self.begun);
                tell(line.strip_suffix(b"\r").unwrap_or(line));
                self.begun.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use super::*;

    fn told(errors: &mut Errors) -> (Vec<String>, Heard) {
        let mut lines = Vec::new();
        let tell = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        let heard = errors.read(ALL_BYTES, tell);
        (lines, heard)
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let (mut errors, input) = Errors::new().unwrap();
        let mut input = File::from(input);
        assert_eq!(told(&mut errors), (vec![], Heard::Nothing));
        input.write_all(b"one\r\ntw").unwrap();
        assert_eq!(told(&mut errors), (vec!["one".to_owned()], Heard::Something));
        input.write_all(b"o \n\nthree").unwrap();
        let lines = vec!["two ".to_owned(), String::new()];
        assert_eq!(told(&mut errors), (lines, Heard::Something));
        drop(input);
        assert_eq!(told(&mut errors), (vec!["three".to_owned()], Heard::End));
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let (mut errors, input) = Errors::new().unwrap();
        let mut input = File::from(input);
        input.write_all(&[b'x'; 30_000]).unwrap();
        let (lines, heard) = told(&mut errors);
        assert!(heard == Heard::Something && errors.begun.len() < LINE_MAX);
        let told: usize = lines.iter().map(String::len).sum();
        assert_eq!(told + errors.begun.len(), 30_000);
    }

    #[test]
    fn a_turn_ends_however_much_there_is() {
        let (mut errors, input) = Errors::new().unwrap();
        File::from(input).write_all(&[b'\n'; 40_000]).unwrap();
        let mut lines = 0;
        assert_eq!(errors.read(TURN_BYTES, |_| lines += 1), Heard::Something);
        assert_eq!(lines, TURN_BYTES);
    }
}
