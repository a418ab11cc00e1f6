//! Requests that their worker did not live to log: the worker keeps what the access log needs in
//! the scoreboard while Perl runs, and the master writes the line of a worker that ended in the
//! middle.

use std::sync::atomic::Ordering::Relaxed;

use drom_observe::clock;

use crate::{
    access_log,
    engine::place,
    http::{self, HeadScratch, Parsed},
    request::Request,
    scoreboard::{Sent, Slot},
    site::Site,
};

/// Perl begins with a request. What was sent of its answer before (an internal redirect after the
/// head) is known to the request.
pub fn note(slot: &Slot, request: &Request) {
    slot.running.client.set(request.client);
    if request.site.access_logs.is_empty() {
        return slot.request.set(request.request_line()); // for the error log, and for who looks on
    }
    let start = request.head.as_ref().map_or(0, |head| head.method.start);
    slot.request.set(&request.bytes[start..]);
    let running = &slot.running;
    let sent = Sent { status: request.status, body_bytes: request.body_sent, whole: false };
    running.set_sent(request.head_sent.then_some(sent));
    running.local.set(request.local);
    running.wall_us.store(request.wall_us, Relaxed);
    running.started_ns.store(request.started_ns.max(1), Relaxed);
}

/// Perl is done: from here on the worker writes the line itself.
pub fn over(slot: &Slot) {
    slot.running.started_ns.store(0, Relaxed);
}

/// Writes the line of the request that a worker ended with, if there was one.
pub fn log(site: &Site, slot: &Slot, pid: u32) {
    let running = &slot.running;
    let started_ns = running.started_ns.swap(0, Relaxed);
    if started_ns == 0 || site.access_logs.is_empty() {
        return;
    }
    // SAFETY: the master's site goes with its generation. The request ends in this function, and
    // what is derived from it keeps no reference to the site.
    let site: &'static Site = unsafe { &*std::ptr::from_ref(site) };
    let mut request = Request::new(site, running.client.get(), running.local.get());
    read_head(&mut request, slot.request.bytes());
    request.started_ns = started_ns;
    request.wall_us = running.wall_us.load(Relaxed);
    request.wall_s = request.wall_us / 1_000_000;
    // A client that got nothing has at least an end of its connection.
    let sent = running.sent().unwrap_or(Sent { status: 500, body_bytes: 0, whole: false });
    request.status = sent.status;
    request.body_sent = sent.body_bytes;
    request.aborted = !sent.whole;
    access_log::write_for(pid, &request, clock::monotonic_ns(), 0);
}

/// A head that did not fit has lost its end: what is left of it is as good as it goes.
fn read_head(request: &mut Request, mut bytes: Vec<u8>) {
    if !bytes.ends_with(b"\r\n\r\n")
        && let Some(end) = memchr::memmem::rfind(&bytes, b"\r\n")
    {
        bytes.truncate(end + 2);
        bytes.extend_from_slice(b"\r\n");
    }
    let mut scratch = HeadScratch { fields: Vec::new() };
    let parsed = http::parse_head(&bytes, &request.site.limits, &mut scratch);
    request.bytes = bytes;
    match parsed {
        Parsed::Head(head) => {
            // What it would be answered with now is nobody's question any more.
            let _ = place(request, head);
        }
        _ => {
            let words = request.bytes.split(|&b| b == b' ').next();
            request.method = words.unwrap_or(b"-").to_vec();
        }
    }
}
