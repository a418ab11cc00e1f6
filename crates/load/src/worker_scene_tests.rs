//! Whole runs of users of a scenario in a simulated world.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use drom_scenario::{AccessLog, LogOptions, Scenario};

use super::tests::{is_near, plan, run, run_pipelined};
use crate::{
    outcome::{ErrorKind, Outcome},
    plan::{OnClose, Pace, Plan, Raw, Scene, Stop, Target},
    scene::SceneTally,
    schedule::{Arrivals, Stage},
    sim::{Act, Asked, page},
};
const MS: u64 = 1_000_000;

/// Log in, look with the cookie and what the first page said, leave.
const SHOP: &str = r#"
base = "http://shop.example"
[[step]]
url = "/login"
form = { user = "ann" }
capture = { token = { regex = "token=([a-z]+)" } }
[[step]]
url = "/look/{{token}}"
check = { text = "seen" }
[[step]]
url = "/bye"
"#;

fn scene(text: &str) -> Scene {
    let scenario =
        Scenario::parse(text, "a.toml".as_ref(), &[], &|_| unreachable!("it names no file"));
    of(scenario.expect("a good scenario"))
}

fn of(scenario: Scenario) -> Scene {
    let address = "127.0.0.1:80".parse().expect("an address");
    let targets = scenario.origins().iter().map(|_| Target::at(address, "/")).collect();
    let scenario = Arc::new(scenario);
    Scene {
        scenario,
        targets,
        seed: 7,
        finishes_rounds: false,
        is_test: false,
        connects_for_rounds: false,
        on_close: OnClose::default(),
        raw: None,
    }
}

fn load(users: u32, stop: Stop, text: &str) -> Plan {
    Plan { scene: Some(scene(text)), ..plan(users, stop) }
}

fn paced(plan: Plan, rps: f64, duration: Duration) -> Plan {
    Plan { pace: Some(Pace::steady(rps, duration)), stop: Stop::After(duration), ..plan }
}

fn tally(outcome: &Outcome) -> &SceneTally {
    let tally = outcome.scene.as_ref().expect("users of a scenario");
    let steps = &tally.steps;
    assert_eq!(steps.iter().map(|step| step.sent).sum::<u64>(), outcome.sent);
    assert_eq!(steps.iter().map(|step| step.ok).sum::<u64>(), outcome.ok);
    assert_eq!(steps.iter().map(|step| step.failed).sum::<u64>(), outcome.failed);
    let rounds = &tally.rounds;
    assert_eq!(rounds.begun, rounds.done + rounds.under_way);
    tally
}

fn answer(head: &str, body: &str) -> Act {
    let length = body.len();
    Act::Send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {length}\r\n\r\n{body}").into())
}

/// The shop's server: what a user has to know is not told twice.
fn shop(asked: Asked<'_>) -> Vec<(u64, Act)> {
    let line = asked.text.lines().next().expect("a request line");
    let known = asked.text.contains("Cookie: id=7\r\n");
    let act = match line {
        "POST /login HTTP/1.1" if asked.text.ends_with("\r\n\r\nuser=ann") && !known => {
            answer("Set-Cookie: id=7\r\n", "token=abc")
        }
        "GET /look/abc HTTP/1.1" if known => page("seen"),
        "GET /bye HTTP/1.1" if known => page("bye"),
        _ => Act::Send(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
    };
    vec![(MS, act)]
}

fn counts(outcome: &Outcome) -> Vec<(u64, u64, u64)> {
    tally(outcome).steps.iter().map(|step| (step.sent, step.ok, step.failed)).collect()
}

#[test]
fn rounds_are_whole_and_each_begins_as_somebody_else() {
    let outcome = run(&load(2, Stop::Requests(10), SHOP), shop);
    assert_eq!((outcome.sent, outcome.ok, outcome.in_flight), (30, 30, 0));
    assert_eq!(counts(&outcome), [(10, 10, 0); 3]);
    let rounds = &tally(&outcome).rounds;
    assert_eq!((rounds.done, outcome.duration), (10, Duration::from_millis(15)));
    assert!(is_near(rounds.time.quantile_ns(0.5), 3 * MS));
    assert!(is_near(tally(&outcome).steps[1].latency.quantile_ns(0.5), MS));
    assert_eq!(tally(&outcome).checks.failed_in_all(), 0);
}

/// A round takes 10 ms: at 25 ms two are under way, and what they still send is the warm-up's.
#[test]
fn rounds_that_are_counted_begin_in_the_window() {
    let text = format!("{SHOP}think = '7ms'\n");
    let warmup = Duration::from_millis(25);
    let (outcome, _) = run_pipelined(&Plan { warmup, ..load(2, Stop::Requests(10), &text) }, shop);
    assert_eq!(counts(&outcome), [(10, 10, 0); 3]);
    let rounds = &tally(&outcome).rounds;
    assert_eq!((rounds.begun, rounds.done, rounds.under_way), (10, 10, 0));
    assert!(is_near(outcome.duration.as_nanos() as u64, 50 * MS), "{:?}", outcome.duration);
    // A time takes the rounds under way as they are.
    let timed = load(2, Stop::After(Duration::from_millis(100)), &text);
    let (outcome, _) = run_pipelined(&Plan { warmup, ..timed }, shop);
    assert!(is_near(outcome.duration.as_nanos() as u64, 100 * MS), "{:?}", outcome.duration);
}

#[test]
fn who_thinks_sends_nothing_meanwhile() {
    let text = format!("{SHOP}think = '7ms'\n");
    let outcome = run(&load(3, Stop::After(Duration::from_millis(100)), &text), shop);
    // A round takes 3 ms and then 7.
    assert_eq!((outcome.sent, outcome.in_flight), (90, 0));
    assert!(is_near(tally(&outcome).rounds.time.max_ns(), 10 * MS));
    assert!(is_near(outcome.latency.max_ns(), MS), "pauses are in no latency");
}

#[test]
fn a_check_that_fails_makes_a_failed_request_and_ends_nothing() {
    let script = |asked: Asked<'_>| match asked.text.contains("/look/") {
        true => vec![(MS, page("nothing"))],
        false => shop(asked),
    };
    let outcome = run(&load(1, Stop::Requests(5), SHOP), script);
    assert_eq!(counts(&outcome), [(5, 5, 0), (5, 0, 5), (5, 5, 0)]);
    assert_eq!((outcome.failed, outcome.errors.len(), outcome.latency.count()), (5, 0, 15));
    assert_eq!(tally(&outcome).checks.failed_in_all(), 5);
}

#[test]
fn no_answer_ends_the_round_and_the_next_one_begins() {
    let script = |asked: Asked<'_>| match asked.text.contains("/look/") {
        true => vec![(MS, Act::Close)],
        false => shop(asked),
    };
    let outcome = run(&load(2, Stop::Requests(8), SHOP), script);
    assert_eq!(counts(&outcome), [(8, 8, 0), (8, 0, 8), (0, 0, 0)]);
    assert_eq!(outcome.errors[&ErrorKind::Closed], 8);
    assert_eq!((tally(&outcome).rounds.done, outcome.reconnects), (8, 6));
}

#[test]
fn an_answer_of_404_that_is_expected_is_a_good_one() {
    let text = "base = 'http://a'\n[[step]]\nurl = '/'\ncheck = { status = 404 }\n";
    let gone = |_: Asked<'_>| {
        vec![(MS, Act::Send(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec()))]
    };
    let outcome = run(&load(1, Stop::Requests(4), text), gone);
    assert_eq!((outcome.ok, outcome.failed, outcome.status[&404]), (4, 0, 4));
}

#[test]
fn an_answer_to_head_has_no_body_and_the_next_one_has() {
    let text = "base = 'http://a'\n[[step]]\nurl = '/'\nmethod = 'HEAD'\n[[step]]\nurl = '/x'\n";
    let script = |asked: Asked<'_>| match asked.text.starts_with("HEAD") {
        true => vec![(MS, Act::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()))],
        false => vec![(MS, answer("", "123456789"))],
    };
    let outcome = run(&load(1, Stop::Requests(6), text), script);
    assert_eq!((outcome.ok, outcome.body_bytes, outcome.reconnects), (12, 54, 0));
}

#[test]
fn in_an_open_loop_rounds_begin_at_their_times() {
    let plan = paced(load(4, Stop::Requests(1), SHOP), 100.0, Duration::from_secs(1));
    let outcome = run(&plan, shop);
    assert_eq!((outcome.sent, outcome.ok, tally(&outcome).rounds.done), (300, 300, 100));
    let open = outcome.open.as_ref().expect("an open loop");
    assert_eq!((open.queued, open.unsent, open.lag.count()), (0, 0, 100));
    assert!(is_near(outcome.latency.max_ns(), MS), "{}", outcome.latency.max_ns());
    assert_eq!(outcome.duration, Duration::from_secs(1));
}

/// The last of ten rounds, which take 150 ms, ends after the window.
#[test]
fn a_round_that_ends_after_the_window_is_in_no_rate() {
    let text = "base = 'http://a'\n[[step]]\nurl = '/'\n";
    let plan = paced(load(9, Stop::Requests(1), text), 10.0, Duration::from_secs(1));
    let outcome = run(&plan, |_| vec![(150 * MS, page("x"))]);
    let rounds = &tally(&outcome).rounds;
    assert_eq!((outcome.ok, rounds.done, rounds.under_way), (10, 9, 1));
    assert_eq!(outcome.open.as_ref().map(|open| open.drained), Some(1));
    assert!((outcome.done_rps() - 9.0).abs() < 1e-9 && (outcome.rate_rps() - 9.0).abs() < 1e-9);
}

/// One user for rounds that come every 2 ms and take 3: the n-th waits n ms, which is in the
/// latency of its first request.
#[test]
fn a_round_that_waits_for_a_user_is_late_from_its_planned_time() {
    let plan = paced(load(1, Stop::Requests(1), SHOP), 500.0, Duration::from_millis(40));
    let outcome = run(&plan, shop);
    let rounds = &tally(&outcome).rounds;
    let open = outcome.open.as_ref().expect("an open loop");
    assert_eq!((rounds.begun + open.unsent, rounds.begun), (20, 14));
    assert!(is_near(outcome.latency.max_ns(), 14 * MS), "{}", outcome.latency.max_ns());
    assert!(is_near(open.service.max_ns(), MS));
}

#[test]
fn rounds_go_on_past_the_end_where_they_are_to() {
    let pause = "[[step]]\nthink = '500ms'\n[[step]]\nurl = \"/bye\"";
    let text = SHOP.replace("[[step]]\nurl = \"/bye\"", pause);
    let cut = paced(load(9, Stop::Requests(1), &text), 10.0, Duration::from_millis(900));
    let outcome = run(&cut, shop);
    assert_eq!(counts(&outcome), [(9, 9, 0), (9, 9, 0), (4, 4, 0)]);
    assert_eq!(tally(&outcome).rounds.under_way, 5);
    let mut whole = cut;
    whole.scene.as_mut().expect("a scene").finishes_rounds = true;
    let outcome = run(&whole, shop);
    assert_eq!(counts(&outcome), [(9, 9, 0); 3]);
    assert_eq!(tally(&outcome).rounds.done, 9);
}

#[test]
fn a_round_without_a_request_does_not_turn_in_circles() {
    let text = "base = 'http://a'\n[[step]]\nurl = '/'\nchance = 0\n";
    let outcome = run(&load(1, Stop::After(Duration::from_millis(105)), text), shop);
    assert_eq!((outcome.sent, tally(&outcome).rounds.done), (0, 11));
}

#[test]
fn what_cannot_be_sent_is_counted_and_told_apart() {
    let text = "base = 'http://a'\n[[step]]\nurl = '/{{x}}'\n[[step]]\nurl = '/bye'\n\
                capture = { x = { header = 'X', default = 'y' } }\n";
    let outcome = run(&load(1, Stop::After(Duration::from_millis(95)), text), |_| vec![]);
    assert_eq!((outcome.sent, tally(&outcome).steps[0].unsent), (0, 10));
}

#[test]
fn who_finds_no_more_rows_has_no_more_to_do() {
    let log = b"- - - [01/Jan/2026:00:00:00 +0000] \"GET /a HTTP/1.1\" 200 1\n\
                - - - [01/Jan/2026:00:00:00 +0000] \"GET /b HTTP/1.1\" 200 1\n\
                - - - [01/Jan/2026:00:00:01 +0000] \"GET /c HTTP/1.1\" 200 1\n";
    let log = AccessLog::read("log".as_ref(), log, LogOptions::default()).expect("a log");
    let times: Arc<[u64]> = log.times_ns.clone().into();
    assert_eq!(*times, [0, 500 * MS, 1_000 * MS]);
    let scene = of(log.scenario("log".as_ref(), "http://a").expect("a base"));
    let closed = Plan { scene: Some(scene), ..plan(2, Stop::After(Duration::from_secs(9))) };
    let outcome = run(&closed, |_| vec![(MS, page("x"))]);
    assert_eq!((outcome.ok, tally(&outcome).users_ended), (3, 2));
    assert!(outcome.duration < Duration::from_millis(10));

    let stages = vec![Stage::steady(Duration::from_millis(1_500), 2.0)];
    let pace = Pace { arrivals: Arrivals::Recorded(times), stages };
    let replay =
        Plan { pace: Some(pace), stop: Stop::After(Duration::from_millis(1_500)), ..closed };
    let seen = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&seen);
    let outcome = run(&replay, move |asked| {
        noted.borrow_mut().push((asked.now_ns / MS, asked.text[..6].to_owned()));
        vec![(MS, page("x"))]
    });
    assert_eq!(outcome.ok, 3);
    let begin = seen.borrow()[0].0;
    let expected = [(0, "GET /a"), (500, "GET /b"), (1_000, "GET /c")];
    assert_eq!(*seen.borrow(), expected.map(|(at, what)| (begin + at, what.to_owned())));
}

#[test]
fn a_test_goes_every_way_once_and_keeps_what_it_saw() {
    let text = "base = 'http://a'\n[[scenario]]\nname = 'one'\nweight = 1000000\n\
                [[scenario.step]]\nurl = '/1'\n\
                [[scenario]]\nname = 'two'\n[[scenario.step]]\nurl = '/2'\n\
                check = { text = 'no' }\n";
    let mut plan = load(1, Stop::Requests(2), text);
    plan.scene.as_mut().expect("a scene").is_test = true;
    let outcome = run(&plan, |_| vec![(MS, page("x"))]);
    let judged = &tally(&outcome).judged;
    let steps: Vec<&str> = judged.iter().map(|step| &step.step[..]).collect();
    assert_eq!(steps, ["one: GET /1", "two: GET /2"]);
    let failed = judged[1].checks.iter().filter(|check| check.found.is_some());
    assert_eq!(failed.count(), 1);
}

/// A page, then three pictures at once, a pause, a page.
fn bursts(stop: Stop) -> Plan {
    let text = "base = 'http://a'\n[[step]]\nurl = '/0'\n[[step]]\nurl = '/1'\n\
                [[step]]\nthink = '5ms'\n[[step]]\nurl = '/0'\n";
    let mut plan = load(1, stop, text);
    let request = |line: &str| format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
    let lines = ["GET /page", "GET /b", "HEAD /c", "GET /d"];
    let scene = plan.scene.as_mut().expect("a scene");
    scene.raw = Some(Raw { requests: lines.map(request).to_vec(), bursts: vec![0..1, 1..4] });
    scene.connects_for_rounds = true;
    plan.records_max = 100;
    plan
}

#[test]
fn a_burst_is_written_at_once_and_waited_for_as_a_whole() {
    let script = |asked: Asked<'_>| match asked.text.starts_with("HEAD") {
        true => vec![(MS, Act::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()))],
        false => vec![(MS, page("x"))],
    };
    let outcome = run(&bursts(Stop::Requests(3)), script);
    assert_eq!(counts(&outcome), [(3, 3, 0), (9, 9, 0), (3, 3, 0)]);
    assert_eq!((outcome.sent, outcome.reconnects, outcome.body_bytes), (15, 2, 12));
    let rows: Vec<u32> = outcome.records.iter().map(|record| record.exchange.row).collect();
    assert_eq!(rows, [0, 1, 2, 3, 0].repeat(3));
    let written = |at: usize| outcome.records[at].exchange.written_ns;
    assert!(written(1) == written(2) && written(2) == written(3));
    assert!(is_near(written(4) - outcome.records[3].ended_ns, 5 * MS));
    // Each round has a connection of its own.
    let first = outcome.records.iter().filter(|record| record.on_socket == 0);
    assert_eq!(first.map(|record| record.exchange.row).collect::<Vec<_>>(), [0; 3]);
}

#[test]
fn what_a_server_leaves_of_a_burst_is_asked_again() {
    let script = |asked: Asked<'_>| match asked.text.contains("/b") {
        true => vec![(MS, answer("Connection: close\r\n", "x")), (MS, Act::Close)],
        false if asked.text.starts_with("HEAD") => vec![(MS, answer("", ""))],
        false => vec![(MS, page("x"))],
    };
    let (outcome, asked) = run_pipelined(&bursts(Stop::Requests(2)), script);
    assert_eq!((outcome.sent, outcome.ok, outcome.failed, asked), (10, 10, 0, 14));
    assert_eq!((outcome.resent, outcome.reconnects), (4, 3));
}

/// The server closes after each answer, and says so; a page, three at once, a page.
#[test]
fn what_is_written_into_a_closed_connection_fails() {
    let script = |asked: Asked<'_>| {
        let answer = match asked.text.starts_with("HEAD") {
            true => Act::Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec()),
            false => answer("Connection: close\r\n", "x"),
        };
        vec![(MS, answer), (MS, Act::Close)]
    };
    let closed = |on_close| {
        let mut plan = bursts(Stop::Requests(2));
        plan.scene.as_mut().expect("a scene").on_close = on_close;
        run_pipelined(&plan, script)
    };
    let (outcome, asked) = closed(OnClose::Fail);
    assert_eq!((counts(&outcome), asked), (vec![(2, 2, 0), (6, 0, 6), (0, 0, 0)], 2));
    assert_eq!((tally(&outcome).rounds.done, outcome.reconnects), (2, 1));
    assert!(outcome.records.iter().all(|r| r.exchange.ready_ns > 0 && !r.is_repeated));
}

/// The same of one request at a time, which is asked once more on another connection.
#[test]
fn what_failed_on_a_closed_connection_is_asked_once_more() {
    let text = "base = 'http://a'\n[[step]]\nurl = '/0'\nrepeat = 3\n";
    let repeated = |stop| {
        let mut plan = load(1, stop, text);
        let scene = plan.scene.as_mut().expect("a scene");
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        scene.raw = Some(Raw { requests: vec![request], bursts: std::iter::once(0..1).collect() });
        (scene.connects_for_rounds, scene.on_close) = (true, OnClose::Repeat);
        plan.records_max = 100;
        plan
    };
    // Said, and not said: then the request meets the end of the connection.
    for head in ["Connection: close\r\n", ""] {
        let script = |_: Asked<'_>| vec![(MS, answer(head, "x")), (MS, Act::Close)];
        let (outcome, _) = run_pipelined(&repeated(Stop::Requests(4)), script);
        assert_eq!((counts(&outcome), tally(&outcome).rounds.done), (vec![(20, 12, 8)], 4));
        let failed = outcome.records.iter().filter(|record| record.error.is_some());
        assert!(failed.clone().count() == 8 && failed.into_iter().all(|r| r.is_repeated));
        assert_eq!(outcome.reconnects, 11);
    }
    // Only once: who closes without an answer ends the round.
    let script = |_: Asked<'_>| vec![(MS, Act::Close)];
    let (outcome, asked) = run_pipelined(&repeated(Stop::Requests(4)), script);
    assert_eq!((counts(&outcome), asked), (vec![(4, 0, 4)], 4));
}

#[test]
fn a_burst_fails_as_a_whole_and_ends_its_round() {
    let script = |asked: Asked<'_>| match asked.text.contains("/b") {
        true => vec![(MS, Act::Close)],
        false if asked.text.contains("/page") => vec![(MS, page("x"))],
        false => vec![],
    };
    let outcome = run(&bursts(Stop::Requests(2)), script);
    assert_eq!(counts(&outcome), [(2, 2, 0), (6, 0, 6), (0, 0, 0)]);
    assert_eq!((outcome.errors[&ErrorKind::Closed], tally(&outcome).rounds.done), (6, 2));
}
