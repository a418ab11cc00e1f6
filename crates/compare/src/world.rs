//! What an experiment needs of the world: a clock, servers, load, the machine. The schedule knows
//! these four traits alone, so a whole experiment also runs against a simulated world in
//! milliseconds.

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{ExpectedBody, Outcome};
use drom_observe::{Counters, Process};
use drom_store::Fact;

use crate::plan::{Launch, Request};

/// A running server; meaningful to the world that gave it.
pub type ServerId = u64;

pub trait Clock {
    /// Monotonic seconds since the world began.
    fn now_s(&self) -> f64;
    /// Seconds since 1970, which may jump.
    fn wall_s(&self) -> f64;
    fn sleep(&mut self, pause: Duration);
}

pub trait Servers {
    /// Starts a server and waits until it answers well.
    fn start(&mut self, launch: &Launch, stop: &AtomicBool) -> Result<ServerId, NotReady>;
    /// One request, for its answer.
    fn answer(&mut self, server: ServerId, request: &Request) -> Result<Reply, String>;
    /// Its processes and their CPU time so far.
    fn processes(&mut self, server: ServerId) -> Vec<Process>;
    /// PSS by process.
    fn pss_bytes(&mut self, server: ServerId) -> Vec<(i32, u64)>;
    /// How its process ended, if it did, and the last that it wrote.
    fn ended(&mut self, _server: ServerId) -> Option<String> {
        None
    }
    /// Asks it to end, so that several can do so at the same time; `stop` still follows.
    fn ask_to_stop(&mut self, _server: ServerId) {}
    /// Ends it and everything it started.
    fn stop(&mut self, server: ServerId);
}

/// Why a server could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub reason: String,
    /// It does answer, but with this status.
    pub status: Option<u16>,
}

impl From<String> for NotReady {
    fn from(reason: String) -> Self {
        Self { reason, status: None }
    }
}

/// A whole answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: String,
    pub body: Vec<u8>,
    /// The body with a word in place of what belongs to this start alone: its port, its folder.
    pub same: Vec<u8>,
}

pub trait Load {
    fn slice(&mut self, order: &Order<'_>, stop: &AtomicBool) -> Result<Outcome, String>;
    /// Rate against a server that does nothing, with answers of this many bytes.
    fn ceiling_rps(&mut self, order: &Ceiling, stop: &AtomicBool) -> Result<f64, String>;
}

/// One slice to measure.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    pub server: ServerId,
    pub request: &'a Request,
    pub connections: u32,
    pub settle: Duration,
    pub window: Duration,
    pub expect_body: Option<ExpectedBody>,
}

#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    pub connections: u32,
    pub window: Duration,
    pub body_bytes: u64,
}

pub trait Machine {
    fn record(&mut self) -> Vec<Fact>;
    fn counters(&mut self) -> Counters;
    /// CPU time of this process, which is the client.
    fn client_cpu_s(&mut self) -> f64;
    /// Where client and servers run, in words.
    fn placement(&self) -> String;
}

pub trait World: Clock + Servers + Load + Machine {}
impl<T: Clock + Servers + Load + Machine> World for T {}
