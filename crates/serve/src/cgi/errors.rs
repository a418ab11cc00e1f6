//! What a script says on its standard error, as lines of the error log: [`Errors`], a pipe for
//! each request.
//!
//! Not the log itself: a script may open /dev/stderr, and `>` would empty it. With a pipe of its
//! own a line also tells whose request it was. What still holds the pipe when the answer is done,
//! a program left in the background, goes to the spawner, as [`super::job::Leftover`].

use std::{
    io::{self, ErrorKind},
    os::fd::{AsRawFd, OwnedFd},
};

use crate::sys;

/// A longer line is written in pieces.
const LINE_MAX: usize = 8192;

pub struct Errors {
    pub pipe: OwnedFd,
    /// A line whose end has not come.
    pub begun: Vec<u8>,
}

impl Errors {
    /// With the script's end.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (pipe, input) = sys::pipe_to_watch()?;
        Ok((Self { pipe, begun: Vec::new() }, input))
    }

    /// Takes what is there. False: nobody can say anything more, and the last line is told.
    pub fn read(&mut self, mut tell: impl FnMut(&[u8])) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match sys::read(self.pipe.as_raw_fd(), &mut buffer) {
                Ok(0) => break,
                Ok(got) => self.take(&buffer[..got], &mut tell),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if !self.begun.is_empty() {
            tell(&std::mem::take(&mut self.begun));
        }
        false
    }

    fn take(&mut self, bytes: &[u8], tell: &mut impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.begun.len() >= LINE_MAX {
                tell(self.begun.trim_ascii_end());
                self.begun.clear();
            }
        }
    }
}

/// A line of the log: "what was said: script".
pub fn line(said: &[u8], script: &[u8]) -> Vec<u8> {
    [said, b": ", script].concat()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use super::*;

    fn told(errors: &mut Errors) -> (Vec<String>, bool) {
        let mut lines = Vec::new();
        let open = errors.read(|line| lines.push(String::from_utf8_lossy(line).into_owned()));
        (lines, open)
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let (mut errors, input) = Errors::new().unwrap();
        let mut input = File::from(input);
        assert_eq!(told(&mut errors), (vec![], true));
        input.write_all(b"one\r\ntw").unwrap();
        assert_eq!(told(&mut errors), (vec!["one".to_owned()], true));
        input.write_all(b"o\n\nthree").unwrap();
        assert_eq!(told(&mut errors), (vec!["two".to_owned(), String::new()], true));
        drop(input);
        assert_eq!(told(&mut errors), (vec!["three".to_owned()], false));
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let (mut errors, input) = Errors::new().unwrap();
        let mut input = File::from(input);
        input.write_all(&[b'x'; 30_000]).unwrap();
        let (lines, open) = told(&mut errors);
        assert!(open && errors.begun.len() < LINE_MAX);
        let told: usize = lines.iter().map(String::len).sum();
        assert_eq!(told + errors.begun.len(), 30_000);
    }
}
