//! One request and its answer on their way between two sides, both directions at once: a server may
//! answer, and even end, before it has the whole request; a client may wait for it to say Continue.

use std::time::Duration;

use drom_load::protocol::{Framing, Head, Heads};
use drom_observe::clock::monotonic_ns;

use crate::{
    body::{Body, Coding},
    head::{Refusal, Request},
    poll,
    rewrite::{Answer, Place, way},
    side::Side,
};

/// Nobody moved anything for so long.
const PATIENCE: Duration = Duration::from_secs(300);
const TICK: Duration = Duration::from_millis(250);

/// Why an exchange did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The client is gone, or the proxy ends: there is nobody to tell.
    Client(&'static str),
    /// What the client hears, if it has not heard anything yet.
    Server(Refusal),
}

/// What is known of an exchange.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// As the server said it; its status is 0 before the head has come.
    pub answer: Answer,
    /// The request's body, up to the limit.
    pub body: Vec<u8>,
    /// All of it.
    pub body_bytes: u64,
    /// The whole request was read.
    pub asked: bool,
    /// The whole answer was read.
    pub answered: bool,
    /// The server said anything.
    pub heard: bool,
    /// The client may send another request.
    pub keep_client: bool,
    /// The server takes another request.
    pub keep_server: bool,
}

pub struct Relay<'a> {
    client: &'a mut Side,
    server: &'a mut Side,
    place: &'a Place,
    request: &'a Request,
    body_bytes_max: usize,
    up: Body,
    up_coding: Coding,
    heads: Heads,
    /// The answer's body, once its head has come.
    down: Option<(Body, Coding)>,
    /// The server wants the body that the client holds back.
    continued: bool,
    told: Told,
}

impl<'a> Relay<'a> {
    /// `server` has the head of the request to write.
    pub fn new(
        client: &'a mut Side,
        server: &'a mut Side,
        place: &'a Place,
        request: &'a Request,
        body_bytes_max: usize,
    ) -> Self {
        let chunked = request.framing == Framing::Chunked;
        Self {
            client,
            server,
            place,
            request,
            body_bytes_max,
            up: Body::new(request.framing),
            up_coding: if chunked { Coding::Chunked } else { Coding::Plain },
            heads: Heads::new(&request.method),
            down: None,
            continued: false,
            told: Told::default(),
        }
    }

    /// To the end, or to where it broke.
    pub fn run(mut self, is_over: &dyn Fn() -> bool) -> (Told, Result<(), Broken>) {
        let mut moved_ns = monotonic_ns();
        let result = loop {
            match self.turn() {
                Err(broken) => break Err(broken),
                Ok(_) if self.is_done() => break Ok(()),
                Ok(true) => moved_ns = monotonic_ns(),
                Ok(false) => {}
            }
            if is_over() {
                break Err(Broken::Client("the recording ended"));
            }
            if monotonic_ns() - moved_ns > PATIENCE.as_nanos() as u64 {
                let words = format!("nothing came from the server for {} s", PATIENCE.as_secs());
                break Err(Broken::Server(Refusal::new(504, words)));
            }
            if let Err(broken) = self.wait() {
                break Err(broken);
            }
        };
        self.told.asked = self.up.is_done();
        self.told.keep_client &= result.is_ok() && self.told.asked;
        self.told.keep_server &= result.is_ok() && self.told.asked && self.server.input.is_empty();
        (self.told, result)
    }

    /// Moves what can be moved now, until nothing can; whether anything was.
    fn turn(&mut self) -> Result<bool, Broken> {
        let mut any = false;
        loop {
            let mut moved = self.ask()?;
            moved |= self.answer()?;
            moved |= self.client.drain().map_err(|_| Broken::Client("the client went away"))?;
            any |= moved;
            if !moved || self.is_done() {
                return Ok(any);
            }
        }
    }

    /// From the client to the server.
    fn ask(&mut self) -> Result<bool, Broken> {
        let mut moved = false;
        if !self.up.is_done() && self.server.has_room() {
            moved |= self.client.fill().map_err(|_| Broken::Client("the client went away"))?;
        }
        moved |= self.up()?;
        if !self.up.is_done() && self.client.ended && self.client.input.is_empty() {
            return Err(Broken::Client("the client ended within its request"));
        }
        match self.server.drain() {
            Ok(written) => moved |= written,
            // It may have answered before it closed.
            Err(_) => self.server.deaf = true,
        }
        Ok(moved)
    }

    fn up(&mut self) -> Result<bool, Broken> {
        let mut used = 0;
        while !self.up.is_done() && self.server.has_room() && used < self.client.input.len() {
            let next = self.up.next(&self.client.input[used..]);
            let (skipped, data) = next.map_err(|fault| {
                Broken::Server(Refusal::new(400, format!("the request's body: {fault}")))
            })?;
            used += skipped + data.len();
            let room = self.body_bytes_max - self.told.body.len();
            self.told.body.extend_from_slice(&data[..data.len().min(room)]);
            self.told.body_bytes += data.len() as u64;
            if !self.server.deaf {
                self.up_coding.put(data, &mut self.server.output);
            }
            if self.up.is_done() {
                self.up_coding.finish(&mut self.server.output);
            }
        }
        self.client.input.drain(..used);
        Ok(used > 0)
    }

    /// From the server to the client.
    fn answer(&mut self) -> Result<bool, Broken> {
        let mut moved = false;
        if self.client.has_room() {
            let filled = self.server.fill();
            moved |= filled.map_err(|error| self.cut(&error.to_string()))?;
            self.told.heard |= !self.server.input.is_empty();
        }
        while self.down.is_none() {
            let parsed = self.heads.parse(&self.server.input);
            match parsed.map_err(|fault| self.cut(&fault.to_string()))? {
                Some((head, length)) => self.head(head, length),
                None if self.server.ended => return Err(self.cut("it closed the connection")),
                None => return Ok(moved),
            }
            moved = true;
        }
        Ok(self.down()? || moved)
    }

    fn head(&mut self, head: Head, length: usize) {
        let answer = Answer::parse(&self.server.input[..length]);
        self.server.input.drain(..length);
        let way = way(head.framing, self.request.modern);
        // A client that is still sending when it has the answer may never get to the end.
        let keep = self.request.keepalive && self.up.is_done() && !way.until_close;
        let bytes = self.place.answer_head(&answer, &head, self.request, keep);
        if head.is_interim() {
            self.continued |= head.status == 100;
            if self.request.modern {
                self.client.output.extend_from_slice(&bytes);
            }
            return;
        }
        self.client.output.extend_from_slice(&bytes);
        self.told.answer = answer;
        self.told.keep_client = keep;
        self.told.keep_server = head.keepalive;
        self.down = Some((Body::new(head.framing), way.coding));
    }

    fn down(&mut self) -> Result<bool, Broken> {
        let Some((body, coding)) = &mut self.down else { return Ok(false) };
        let (mut used, input) = (0, &self.server.input);
        let mut fault = None;
        while !body.is_done() && self.client.has_room() && used < input.len() {
            match body.next(&input[used..]) {
                Ok((skipped, data)) => {
                    used += skipped + data.len();
                    coding.put(data, &mut self.client.output);
                }
                Err(other) => {
                    fault = Some(other);
                    break;
                }
            }
        }
        if self.server.ended && used == input.len() && fault.is_none() {
            fault = body.end().err();
        }
        self.server.input.drain(..used);
        if body.is_done() && !self.told.answered {
            coding.finish(&mut self.client.output);
            self.told.answered = true;
        }
        match fault {
            Some(fault) => Err(self.cut(&fault.to_string())),
            None => Ok(used > 0),
        }
    }

    fn cut(&self, why: &str) -> Broken {
        let status = if self.down.is_some() { "within its answer" } else { "before its answer" };
        Broken::Server(Refusal::new(502, format!("the server failed {status}: {why}")))
    }

    fn is_done(&self) -> bool {
        let all_asked = self.up.is_done() && self.server.is_drained();
        self.told.answered && self.client.is_drained() && (all_asked || self.is_enough())
    }

    /// The rest of the request is of no use any more, or will never come.
    fn is_enough(&self) -> bool {
        let waits = self.request.expects && !self.continued;
        !self.told.keep_server || self.server.deaf || self.server.ended || waits
    }

    fn wait(&mut self) -> Result<(), Broken> {
        let reads = !self.up.is_done() && self.server.has_room();
        let (client, mut server) =
            (self.client.interest(reads), self.server.interest(self.client.has_room()));
        if server.events == 0 {
            // poll(2) passes it over; its end would wake us for nothing, again and again.
            server.descriptor = -1;
        }
        let mut interests = [client, server];
        poll::wait(&mut interests, TICK).map_err(|_| Broken::Client("poll failed"))?;
        let gone = interests[0].found & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        let is_ready = interests[0].found & interests[0].events != 0;
        if gone && !is_ready { Err(Broken::Client("the client went away")) } else { Ok(()) }
    }
}
