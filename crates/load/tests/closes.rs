//! Servers that close early, against an open loop: a connection that nobody serves is not free.

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{ErrorKind, Outcome, Pace, Plan, Stop, Target, run};
use drom_testkit::{Counts, Manner, Script, Server, Turn};

/// 400 requests a second for 100 ms over 64 connections.
fn go(script: Script) -> (Outcome, Counts) {
    let server = Server::start(script).expect("a server");
    let address = server.address();
    let target = Target::at(address, "/");
    let window = Duration::from_millis(100);
    let plan = Plan {
        connections: 64,
        stop: Stop::After(window),
        pace: Some(Pace::steady(400.0, window)),
        timeout: Duration::from_secs(1),
        ..Plan::get(target)
    };
    let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("the run is possible");
    (outcome, server.settle(Duration::from_secs(5)).expect("every connection is closed"))
}

/// Apache and nginx still read for a while after they have closed (a lingering close): a request
/// that is written then gets neither an answer nor a reset.
#[test]
fn a_connection_that_was_closed_at_once_is_not_taken_for_a_free_one() {
    let manners = [vec![Manner::Close; 64], vec![Manner::Serve; 100]].concat();
    // While the client makes 64 connections, the first of them are closed; not every time in time.
    let script = Script { manners, spins: true, ..Script::always(Turn::default()) };
    for _ in 0..5 {
        let (outcome, counts) = go(script.clone());
        // A close that crosses a request is no fault; nor is it forgotten.
        let closed = outcome.errors.get(&ErrorKind::Closed).copied().unwrap_or(0);
        let seen = (outcome.sent, outcome.ok + closed, closed);
        assert_eq!(seen, (40, 40, counts.late), "{:?}", outcome.errors);
    }
}

/// The first connections are no more than any other.
#[test]
fn a_server_that_resets_the_first_connections_is_measured() {
    let manners = [vec![Manner::Reset; 6], vec![Manner::Serve; 100]].concat();
    for _ in 0..5 {
        let script = Script { manners: manners.clone(), ..Script::always(Turn::default()) };
        let server = Server::start(script).expect("a server");
        let target = Target::at(server.address(), "/");
        let plan = Plan { connections: 20, stop: Stop::Requests(200), ..Plan::get(target) };
        let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("measured");
        // However early it is seen, it was made.
        assert_eq!(outcome.errors, [(ErrorKind::Closed, 6)].into());
        assert_eq!(outcome.ok, 194);
    }
}

/// Behind the end of what the server has to say it is no other failure than that.
#[test]
fn a_reset_behind_an_end_is_an_end() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = Target::at(listener.local_addr().expect("an address"), "/");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    });
    let plan = Plan { connections: 20, stop: Stop::Requests(400), ..Plan::get(target) };
    let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("counted");
    assert_eq!(outcome.errors, [(ErrorKind::Closed, 400)].into());
}
