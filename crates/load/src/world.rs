//! The world of a client thread: time, sockets, waiting. [`Kernel`] is the real one; the tests have
//! one with a clock and servers of its own, in which whole runs come out exactly.
//!
//! Readiness is edge-triggered: who is told that a socket is readable reads until a short read, and
//! on `closing` until the end.

use std::{io, time::Duration};

use drom_observe::clock;

use crate::{
    poll::{Poll, Ready},
    socket::{self, KernelSocket, Route, Stream, Transport},
};

pub trait World {
    type Stream: Transport;

    /// Nanoseconds since some moment.
    fn now_ns(&self) -> u64;

    /// A stream whose connect is under way; what happens to it is reported under `token`.
    fn connect(&mut self, route: &Route, token: u64) -> io::Result<Self::Stream>;

    /// Why the connect failed, if it did.
    fn connect_error(&self, stream: &Self::Stream) -> Option<io::Error>;

    /// Waits until something is ready or `longest` has passed; the number of reports.
    fn wait(&mut self, longest: Duration) -> io::Result<usize>;

    /// The report number `at` of the last wait.
    fn report(&self, at: usize) -> Ready;
}

/// The machine's clock, TCP over epoll.
pub struct Kernel {
    poll: Poll,
    connects: usize,
}

impl Kernel {
    pub fn new(reports_max: usize) -> io::Result<Self> {
        Ok(Self { poll: Poll::new(reports_max)?, connects: 0 })
    }
}

impl World for Kernel {
    type Stream = Stream<KernelSocket>;

    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn connect(&mut self, route: &Route, token: u64) -> io::Result<Self::Stream> {
        let socket = socket::connect(route, self.connects)?;
        let stream = Stream::new(KernelSocket::new(socket, &route.address), route)?;
        self.connects += 1;
        self.poll.add(&stream.socket().socket, token)?;
        Ok(stream)
    }

    fn connect_error(&self, stream: &Self::Stream) -> Option<io::Error> {
        stream.socket().socket.take_error().unwrap_or_else(Some)
    }

    #[inline]
    fn wait(&mut self, longest: Duration) -> io::Result<usize> {
        self.poll.wait(longest)
    }

    #[inline]
    fn report(&self, at: usize) -> Ready {
        self.poll.report(at)
    }
}
