//! One client's connection: its requests, one after the other, each passed on and told of.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use drom_observe::clock::monotonic_ns;
use drom_scenario::Exchange;

use crate::{
    head::{self, Field, Refusal, Request},
    poll,
    proxy::{Seen, Shared},
    relay::{Broken, Relay, Told},
    rewrite::Answer,
    side::Side,
};

/// How long a client may think before its next request.
const IDLE: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(250);

pub struct Conversation<'s> {
    shared: &'s Shared,
    client: Side,
    /// From the last request, when the server keeps it open.
    server: Option<Side>,
}

impl<'s> Conversation<'s> {
    pub fn new(shared: &'s Shared, client: Side) -> Self {
        Self { shared, client, server: None }
    }

    /// Until one of them ends it.
    pub fn run(mut self) {
        loop {
            match self.read_head() {
                Ok(None) => return,
                Ok(Some(request)) => {
                    if !self.exchange(&request) {
                        return self.client.linger();
                    }
                }
                Err(refusal) => {
                    self.refuse(&refusal, false);
                    self.shared.tell(Seen::refused(&refusal));
                    return self.client.linger();
                }
            }
        }
    }

    /// `None`: there is no further request.
    fn read_head(&mut self) -> Result<Option<Request>, Refusal> {
        let began_ns = monotonic_ns();
        loop {
            if let Some((request, length)) = head::parse(&self.client.input)? {
                self.client.input.drain(..length);
                return Ok(Some(request));
            }
            let idle = monotonic_ns() - began_ns > IDLE.as_nanos() as u64;
            if self.client.ended || idle || self.shared.stop.load(Relaxed) {
                return Ok(None);
            }
            match self.client.fill() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(_) => return Ok(None),
            }
            if poll::wait(&mut [self.client.interest(true)], TICK).is_err() {
                return Ok(None);
            }
        }
    }

    /// Passes one request on; whether there may be another.
    fn exchange(&mut self, request: &Request) -> bool {
        let _under_way = self.shared.begin();
        let at_ns = monotonic_ns();
        if let Some(refusal) = self.of_another(request) {
            return self.turn_away(request, refusal, at_ns);
        }
        let fields = self.shared.upstream.place.request_fields(request);
        let (told, result) = self.relay(request, &fields);
        let mut note = None;
        if let Err(broken) = result {
            note = Some(match broken {
                Broken::Client(why) => why.to_owned(),
                Broken::Server(refusal) => {
                    if told.answer.status == 0 {
                        return self.turn_away(request, refusal, at_ns);
                    }
                    // Its end would be the body's.
                    self.client.broken = !request.modern;
                    refusal.words
                }
            });
        }
        let keep = told.keep_client;
        self.shared.tell(self.seen(request, fields, told, (at_ns, note)));
        keep
    }

    /// The client hears why, and so does who watches; there is no further request.
    fn turn_away(&mut self, request: &Request, refusal: Refusal, at_ns: u64) -> bool {
        self.refuse(&refusal, request.method == "HEAD");
        let seen = Seen::new(request, refusal.status, monotonic_ns() - at_ns);
        self.shared.tell(Seen { note: Some(refusal.words), ..seen });
        false
    }

    /// Somebody has made this the proxy of a browser: what is for other servers, and what it shows
    /// them, is nobody's here.
    fn of_another(&self, request: &Request) -> Option<Refusal> {
        let authority = request.proxied.as_ref()?;
        let place = &self.shared.upstream.place;
        let is_meant = self.client.port().is_some_and(|here| place.is_meant(authority, here));
        (!is_meant).then(|| {
            let words = format!(
                "this is no proxy for {authority}, it stands before {} alone: open its own address \
                 as if it was the server",
                place.origin()
            );
            Refusal::new(421, words)
        })
    }

    /// Over the last connection, if the server still has it.
    fn relay(&mut self, request: &Request, fields: &[Field]) -> (Told, Result<(), Broken>) {
        if let Some(server) = self.server.take().and_then(still_idle) {
            let (told, result) = self.relay_over(server, request, fields);
            // The server may have closed it while the request was on its way.
            let is_stale = matches!(result, Err(Broken::Server(_))) && !told.heard;
            if !is_stale || !is_repeatable(request) || told.body_bytes > 0 {
                return (told, result);
            }
        }
        match self.shared.upstream.connect() {
            Ok(server) => self.relay_over(server, request, fields),
            Err(words) => (Told::default(), Err(Broken::Server(Refusal::new(502, words)))),
        }
    }

    fn relay_over(
        &mut self,
        mut server: Side,
        request: &Request,
        fields: &[Field],
    ) -> (Told, Result<(), Broken>) {
        let Shared { upstream, body_bytes_max, stop, .. } = self.shared;
        server.output = upstream.place.request_head(request, fields);
        let relay =
            Relay::new(&mut self.client, &mut server, &upstream.place, request, *body_bytes_max);
        let (told, result) = relay.run(&|| stop.load(Relaxed));
        if told.keep_server {
            self.server = Some(server);
        }
        (told, result)
    }

    /// The proxy's own answer.
    fn refuse(&mut self, refusal: &Refusal, to_head: bool) {
        let Refusal { status, words } = refusal;
        let body = format!("drom record: {words}\n");
        let head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            reason(*status),
            body.len()
        );
        self.client.output.extend_from_slice(head.as_bytes());
        if !to_head {
            self.client.output.extend_from_slice(body.as_bytes());
        }
    }

    fn seen(
        &self,
        request: &Request,
        fields: Vec<Field>,
        told: Told,
        (at_ns, mut note): (u64, Option<String>),
    ) -> Seen {
        let took_ns = monotonic_ns() - at_ns;
        let seen = Seen::new(request, told.answer.status, took_ns);
        let whole = told.body.len() as u64 == told.body_bytes;
        if !whole {
            let most = self.shared.body_bytes_max;
            let words = format!(
                "left out: its body of {} bytes is longer than {most}; --max-body allows more",
                told.body_bytes
            );
            note = note.or(Some(words));
        }
        if let Some((name, _)) = fields.iter().find(|(_, value)| !is_text(value)) {
            let words = format!("without its header {name}, which is no UTF-8 text");
            note = note.or(Some(words));
        }
        let is_step = told.asked && whole && request.target.starts_with('/');
        let content_type = told.answer.text("content-type");
        let exchange = is_step.then(|| Exchange {
            at_ns,
            took_ns,
            method: request.method.clone(),
            url: format!("{}{}", self.shared.upstream.place.origin(), request.target),
            headers: in_words(fields.iter().filter(|(_, value)| is_text(value))),
            body: told.body,
            status: told.answer.status,
            answer_headers: answer_words(&told.answer),
        });
        Seen { content_type, exchange, note, ..seen }
    }
}

fn still_idle(mut server: Side) -> Option<Side> {
    server.is_idle().then_some(server)
}

/// Asking twice does no more than asking once (RFC 9110, 9.2.2).
fn is_repeatable(request: &Request) -> bool {
    matches!(&*request.method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

fn is_text(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok()
}

fn in_words<'f>(fields: impl Iterator<Item = &'f Field>) -> Vec<(String, String)> {
    let word = |(name, value): &Field| (name.clone(), String::from_utf8_lossy(value).into_owned());
    fields.map(word).collect()
}

fn answer_words(answer: &Answer) -> Vec<(String, String)> {
    in_words(answer.fields.iter())
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        405 => "Method Not Allowed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Refused",
    }
}
