//! A CGI job on its way from a worker to the spawner and on to a zygote: one message, [`Stdio`]'s
//! descriptors. What a script's standard error may still say afterwards: [`Leftover`], with one.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A script's standard input, output and error.
#[derive(Clone, Copy)]
pub struct Stdio(pub [RawFd; 3]);

impl Stdio {
    /// Of a message; `None` when it brought others.
    pub fn of(fds: &[OwnedFd]) -> Option<Self> {
        let fds: &[OwnedFd; 3] = fds.try_into().ok()?;
        Some(Self(fds.each_ref().map(AsRawFd::as_raw_fd)))
    }
}

/// What to run. `slot` names the line of the scoreboard that tells the worker about the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job<Text> {
    pub slot: u32,
    /// Number of the job in that slot.
    pub serial: u32,
    pub script: Text,
    /// `NAME=value`.
    pub env: Vec<Text>,
    pub args: Vec<Text>,
}

/// Longest message: environment and arguments together.
pub const JOB_BYTES_MAX: usize = 256 * 1024;

impl<Text: AsRef<[u8]>> Job<Text> {
    /// Little-endian counts and lengths before bytes; both ends are the same program.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.clear();
        put_number(into, self.slot);
        put_number(into, self.serial);
        put(into, self.script.as_ref());
        for list in [&self.env, &self.args] {
            put_number(into, list.len() as u32);
            list.iter().for_each(|text| put(into, text.as_ref()));
        }
    }
}

impl<'a> Job<&'a [u8]> {
    /// `None` when the bytes are not a whole job.
    pub fn decode(mut bytes: &'a [u8]) -> Option<Self> {
        let slot = take_number(&mut bytes)?;
        let serial = take_number(&mut bytes)?;
        let script = take(&mut bytes)?;
        let mut list = || {
            let count = take_number(&mut bytes)?;
            (0..count).map(|_| take(&mut bytes)).collect::<Option<Vec<_>>>()
        };
        let (env, args) = (list()?, list()?);
        bytes.is_empty().then_some(Self { slot, serial, script, env, args })
    }
}

/// A standard error that somebody holds when the answer is done, a program in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover<Text> {
    /// ADDRESS:PORT.
    pub client: Text,
    pub script: Text,
    /// A line whose end has not come.
    pub begun: Text,
}

impl<Text: AsRef<[u8]>> Leftover<Text> {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in [&self.client, &self.script, &self.begun] {
            put(&mut bytes, text.as_ref());
        }
        bytes
    }
}

impl<'a> Leftover<&'a [u8]> {
    /// `None` when the bytes are no such message.
    pub fn decode(mut bytes: &'a [u8]) -> Option<Self> {
        let mut text = || take(&mut bytes);
        let leftover = Self { client: text()?, script: text()?, begun: text()? };
        bytes.is_empty().then_some(leftover)
    }
}

fn put_number(into: &mut Vec<u8>, number: u32) {
    into.extend_from_slice(&number.to_le_bytes());
}

fn put(into: &mut Vec<u8>, text: &[u8]) {
    put_number(into, text.len() as u32);
    into.extend_from_slice(text);
}

fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_number(bytes)? as usize;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            // What is read as a job is written as the same bytes.
            if let Some(job) = Job::decode(&bytes) {
                let mut again = Vec::new();
                job.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn a_job_survives_the_trip_and_a_cut_one_is_refused() {
        let job = Job {
            slot: 7,
            serial: 9,
            script: &b"/srv/cgi-bin/x.pl"[..],
            env: vec![b"A=1", b"B="],
            args: vec![b"isindex"],
        };
        let mut bytes = Vec::new();
        job.encode(&mut bytes);
        assert_eq!(Job::decode(&bytes), Some(job));
        for cut in 0..bytes.len() {
            assert_eq!(Job::decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_leftover_survives_the_trip() {
        let left = Leftover { client: &b"[::1]:80"[..], script: b"/srv/x.pl", begun: b"" };
        let bytes = left.encode();
        assert_eq!(Leftover::decode(&bytes), Some(left));
        assert_eq!(Leftover::decode(&bytes[1..]), None);
        assert_eq!(Leftover::decode(&[&bytes[..], b"x"].concat()), None);
    }
}
