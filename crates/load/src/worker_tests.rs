//! Whole runs of one thread in a simulated world, whose figures are known beforehand.

use std::sync::mpsc::channel;

use super::*;
use crate::{
    exchange::Exchange,
    outcome::{ErrorKind, Outcome},
    plan::{Pace, Target},
    sim::{Act, Asked, Sim, page},
    timeline::Timeline,
    verdict::Queue,
};

const MS: u64 = 1_000_000;
/// Before an open loop begins.
const LEAD: u64 = 5 * MS;

pub(super) fn plan(connections: u32, stop: Stop) -> Plan {
    let address = "127.0.0.1:80".parse().unwrap();
    let target = Target::at(address, "/");
    Plan { connections, stop, ..Plan::get(target) }
}

/// One thread against a script, the warm-up over from the start.
pub(super) fn run(
    plan: &Plan,
    script: impl FnMut(Asked<'_>) -> Vec<(u64, Act)> + 'static,
) -> Outcome {
    let (outcome, asked) = run_pipelined(plan, script);
    assert_eq!((outcome.sent, outcome.resent), (asked, 0), "what the server was asked");
    outcome
}

/// The same, and how many requests the server saw: those written into a closed socket it did not,
/// those that it had said it would not answer it may have seen twice.
pub(super) fn run_pipelined(
    plan: &Plan,
    script: impl FnMut(Asked<'_>) -> Vec<(u64, Act)> + 'static,
) -> (Outcome, u64) {
    run_in(Sim::new(script), plan)
}

fn run_in(sim: Sim, plan: &Plan) -> (Outcome, u64) {
    run_late(sim, plan, 0)
}

/// The thread comes to its work so late.
fn run_late(sim: Sim, plan: &Plan, late_ns: u64) -> (Outcome, u64) {
    let request = crate::request::bytes(plan).unwrap();
    let (stop, live) = (AtomicBool::new(false), Live::default());
    let ((slices, handed_in), (_, spare)) = (channel(), channel());
    let quota = match plan.stop {
        Stop::Requests(requests) => Some(requests),
        Stop::After(_) => None,
    };
    let orders = Orders {
        plan,
        request: &request,
        routes: &crate::lane::routes(plan, &request).unwrap(),
        connections: plan.connections,
        quota,
        schedule: crate::run::schedule(plan, 1, 0),
        start_ns: sim.now_ns() + LEAD,
        open_ns: sim.now_ns() + to_ns(plan.warmup) + if plan.pace.is_some() { LEAD } else { 0 },
        stop: &stop,
        abort: &AtomicBool::new(false),
        signs: &Signs::default(),
        live: &live,
        uses_rings: false,
        thread: 0,
        threads: 1,
        slices,
        spare,
    };
    let asked = sim.requests();
    sim.sleep(late_ns);
    let report = work_in(sim, &orders).unwrap();
    let mut outcome = Outcome::default();
    let mut timeline = Timeline::new(1);
    handed_in.try_iter().for_each(|slice| drop(timeline.take(slice)));
    let (sum, intervals) = timeline.finish();
    sum.settle(report.in_flight, &mut outcome, plan.pace.is_some());
    let of_seconds: u64 = intervals.iter().map(|interval| interval.latency().count()).sum();
    assert_eq!(of_seconds, outcome.latency.count(), "seconds are the whole");
    let places_ns = report.span_ns as f64 * f64::from(plan.connections * plan.depth);
    let found = report.accounted_ns / places_ns;
    assert!((found - 1.0).abs() < 0.001, "Little's law: {found}");
    outcome.duration = Duration::from_nanos(report.window_ns);
    outcome.connection_time = Duration::from_nanos(places_ns as u64);
    outcome.timeline = intervals;
    (outcome.records, outcome.first_head) = (report.records, report.first_head);
    (outcome.interrupted, outcome.scene) = (report.stopped, report.scene);
    (outcome, asked())
}

/// Three significant digits, and the microsecond that a look takes.
pub(super) fn is_near(measured_ns: u64, wanted_ns: u64) -> bool {
    measured_ns.abs_diff(wanted_ns) <= wanted_ns / 1000 + 1_000
}

/// A second, and half a millisecond, in which nothing of these scripts ends.
fn second() -> Stop {
    Stop::After(Duration::from_micros(1_000_500))
}

#[test]
fn answers_that_take_a_millisecond_are_a_thousand_a_second() {
    let outcome = run(&plan(1, second()), |_| vec![(MS, page("x"))]);
    assert_eq!((outcome.ok, outcome.failed, outcome.in_flight), (1000, 0, 1));
    assert_eq!(outcome.duration, Duration::from_micros(1_000_500));
    for p in [0.0, 0.5, 0.99, 1.0] {
        assert!(is_near(outcome.latency.quantile_ns(p), MS), "{p}");
    }
}

/// Every tenth answer takes ten times as long: that is the 91st percentile and up.
#[test]
fn two_kinds_of_answers_have_their_places() {
    let script = |asked: Asked<'_>| {
        let slow = asked.number % 10 == 9;
        vec![(if slow { 10 * MS } else { MS }, page("x"))]
    };
    let outcome = run(&plan(7, Stop::Requests(10_000)), script);
    assert_eq!((outcome.sent, outcome.ok, outcome.in_flight), (10_000, 10_000, 0));
    let at = |p| outcome.latency.quantile_ns(p);
    assert!(is_near(at(0.9), MS) && is_near(at(0.901), 10 * MS), "{} {}", at(0.9), at(0.901));
}

/// A server that freezes: each connection has one request under way, and only those tell of it.
#[test]
fn a_closed_loop_sees_a_freeze_once_a_connection() {
    let script = |asked: Asked<'_>| {
        let at_ms = asked.now_ns / MS % 1_000;
        vec![(if at_ms == 500 { 400 * MS } else { MS }, page("x"))]
    };
    let outcome = run(&plan(3, second()), script);
    let slow = outcome.latency.histogram().count_between(100 * MS, u64::MAX);
    assert_eq!((slow, outcome.ok), (3, 3 * 601), "500 before, the frozen one, 100 after");
    assert!(is_near(outcome.latency.max_ns(), 400 * MS));
}

#[test]
fn every_end_of_a_request_is_counted_as_what_it_is() {
    let script = |asked: Asked<'_>| {
        let Act::Send(whole) = page("0123456789") else { unreachable!() };
        let part = Act::Send(whole[..whole.len() - 3].to_vec());
        match asked.number % 5 {
            0 => vec![(MS, Act::Send(whole))],
            1 => vec![(MS, part), (2 * MS, Act::Close)],
            2 => vec![(MS, part), (2 * MS, Act::Reset)],
            3 => vec![(MS, Act::Send(b"nonsense\r\n\r\n".to_vec()))],
            _ => vec![],
        }
    };
    let plan = Plan { timeout: Duration::from_millis(100), ..plan(4, Stop::Requests(1000)) };
    let outcome = run(&plan, script);
    assert_eq!((outcome.ok, outcome.failed), (200, 800));
    let errors: Vec<_> = outcome.errors.iter().map(|(kind, count)| (*kind, *count)).collect();
    let wanted = [(ErrorKind::Timeout, 200), (ErrorKind::Closed, 400), (ErrorKind::Protocol, 200)];
    assert_eq!(errors, wanted);
    assert!(is_near(outcome.latency.max_ns(), MS), "errors have a histogram of their own");
}

#[test]
fn what_is_under_way_at_the_end_is_neither_good_nor_bad() {
    let outcome = run(&plan(5, second()), |_| vec![(300 * MS, page("x"))]);
    assert_eq!((outcome.sent, outcome.ok, outcome.in_flight), (20, 15, 5));
}

#[test]
fn a_page_may_come_in_any_pieces() {
    let script = |asked: Asked<'_>| {
        let Act::Send(whole) = page("0123456789") else { unreachable!() };
        let step = 1 + asked.number as usize % whole.len();
        let pieces = whole.chunks(step).map(|piece| Act::Send(piece.to_vec()));
        (1..).map(|at| at * MS / 100).zip(pieces).collect()
    };
    let outcome = run(&plan(3, Stop::Requests(500)), script);
    assert_eq!((outcome.ok, outcome.failed), (500, 0));
    assert_eq!((outcome.first_byte.count(), outcome.transfer.count()), (500, 500));
    assert!(is_near(outcome.first_byte.max_ns(), MS / 100), "{}", outcome.first_byte.max_ns());
    let parts = outcome.first_byte.mean_ns() + outcome.transfer.mean_ns();
    assert!((parts / outcome.latency.mean_ns() - 1.0).abs() < 0.001);
}

/// A server that answers requests in turn, a millisecond each, however many have come.
fn in_turn() -> impl FnMut(Asked<'_>) -> Vec<(u64, Act)> {
    let mut free_ns = 0;
    move |asked: Asked<'_>| {
        free_ns = asked.now_ns.max(free_ns) + MS;
        vec![(free_ns - asked.now_ns, page("x"))]
    }
}

#[test]
fn pipelined_requests_wait_for_each_other() {
    let plan = Plan { depth: 8, ..plan(1, Stop::Requests(1_000)) };
    let outcome = run(&plan, in_turn());
    assert_eq!((outcome.sent, outcome.ok, outcome.in_flight), (1_000, 1_000, 0));
    let at = |p| outcome.latency.quantile_ns(p);
    assert!(is_near(at(0.125), MS) && is_near(at(0.5), 4 * MS) && is_near(at(1.0), 8 * MS));
    assert_eq!(outcome.duration, Duration::from_secs(1));
}

#[test]
fn the_seconds_of_an_open_loop_go_on_to_its_end() {
    let seconds = |rps, ms| {
        let outcome = run(&paced(1, rps, Duration::from_millis(ms)), |_| vec![(MS, page("x"))]);
        let of = |i: &crate::Interval| (i.length.as_millis(), i.sent, i.ok);
        outcome.timeline.iter().map(of).collect::<Vec<_>>()
    };
    let each = (1_000, 1, 1);
    assert_eq!(seconds(1.0, 3_500), [each, each, each, (500, 1, 1)]);
    let none = (1_000, 0, 0);
    assert_eq!(seconds(0.4, 5_000), [each, none, each, none, none]);
}

/// What a server does after the last planned request (it closes, say) is seen.
#[test]
fn an_open_loop_lasts_as_long_as_it_says() {
    let outcome = run(&paced(1, 0.5, Duration::from_secs(5)), |_| vec![(MS, page("x"))]);
    assert_eq!((outcome.duration, outcome.ok), (Duration::from_secs(5), 3));
    assert_eq!(outcome.connection_time.as_millis(), 5_000);
}

#[test]
fn fewer_requests_than_places_are_spread_over_all_connections() {
    for (requests, each) in [(100, 10..=10), (25, 2..=3), (160, 16..=16), (400, 17..=400)] {
        let all = plan(10, Stop::Requests(requests));
        let outcome = run(&Plan { depth: 16, records_max: 400, ..all }, |_| vec![(MS, page("x"))]);
        let of = |number: u32| outcome.records.iter().filter(move |r| r.connection == number);
        let counts: Vec<usize> = (0..10).map(|number| of(number).count()).collect();
        assert!(counts.iter().all(|count| each.contains(count)), "{requests}: {counts:?}");
        assert_eq!(outcome.ok, requests);
    }
}

#[test]
fn what_a_server_will_not_answer_is_asked_again() {
    let mut in_turn = in_turn();
    let script = move |asked: Asked<'_>| {
        let after_ns = in_turn(asked)[0].0;
        if asked.number % 10 != 9 {
            return vec![(after_ns, page("x"))];
        }
        let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        vec![(after_ns, Act::Send(last.to_vec())), (after_ns, Act::Close)]
    };
    let plan = Plan { depth: 4, ..plan(1, Stop::Requests(400)) };
    let (outcome, asked) = run_pipelined(&plan, script);
    assert!((400..=400 + outcome.resent).contains(&asked), "{asked}");
    assert_eq!((outcome.sent, outcome.ok, outcome.failed), (400, 400, 0));
    assert!(outcome.resent > 0 && outcome.reconnects > 0);
}

#[test]
fn requests_behind_one_that_fails_fail_too() {
    let script = |asked: Asked<'_>| match asked.number % 4 {
        0 => vec![(MS, page("x"))],
        1 => vec![(2 * MS, Act::Close)],
        _ => vec![],
    };
    let plan = Plan { depth: 4, ..plan(1, Stop::Requests(400)) };
    let (outcome, asked) = run_pipelined(&plan, script);
    assert!(outcome.sent == 400 && asked <= 400, "{asked}");
    assert!(outcome.ok >= 90 && outcome.errors[&ErrorKind::Closed] + outcome.ok == 400);
}

#[test]
fn a_large_body_is_counted_though_nobody_looks_at_it() {
    let plan = Plan { records_max: 3, ..plan(2, Stop::Requests(10)) };
    let body = "x".repeat(100_000);
    let outcome = run(&plan, move |_| vec![(MS, page(&body))]);
    assert_eq!((outcome.ok, outcome.body_bytes), (10, 1_000_000));
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".len() as u64;
    assert_eq!(outcome.bytes_read, 10 * (100_000 + head));
    assert_eq!(outcome.records.len(), 3);
    let exchange = outcome.records[2].exchange;
    assert_eq!((exchange.body_bytes, exchange.wire_bytes), (100_000, 100_000 + head));
}

#[test]
fn a_record_has_every_stamp() {
    let script = |asked: Asked<'_>| {
        let Act::Send(whole) = page("0123456789") else { unreachable!() };
        let (front, back) = whole.split_at(20);
        let close = if asked.number == 1 { vec![(4 * MS, Act::Reset)] } else { vec![] };
        let answer = vec![(MS, Act::Send(front.to_vec())), (3 * MS, Act::Send(back.to_vec()))];
        if close.is_empty() { answer } else { close }
    };
    let outcome = run(&Plan { records_max: 10, ..plan(1, Stop::Requests(3)) }, script);
    let [good, bad, again] = outcome.records[..] else { panic!("{:?}", outcome.records) };
    let Exchange { begun_ns, written_ns, first_byte_ns, .. } = good.exchange;
    assert!(begun_ns <= good.exchange.ready_ns && good.exchange.ready_ns <= written_ns);
    assert_eq!((first_byte_ns - written_ns, good.ended_ns - written_ns), (MS, 3 * MS));
    assert_eq!((good.status, good.error, good.kept), (200, None, true));
    assert!(written_ns <= good.exchange.sent_ns && good.exchange.sent_ns <= first_byte_ns);
    assert_eq!((bad.status, bad.error), (0, Some(ErrorKind::Closed)));
    assert_eq!((good.os_error, bad.os_error), (None, Some(libc::ECONNRESET)));
    assert_eq!((good.on_socket, bad.on_socket, again.on_socket), (0, 1, 0));
}

#[test]
fn the_request_that_was_said_to_ends_the_run() {
    let script = |asked: Asked<'_>| {
        let act = if asked.number == 4 { Act::Reset } else { page("x") };
        vec![(MS, act)]
    };
    let ends_with: fn(&Record) -> bool = |record| record.os_error.is_some();
    let plan = Plan { ends_with: Some(ends_with), ..plan(1, Stop::Requests(10)) };
    let outcome = run(&plan, script);
    assert_eq!((outcome.ok, outcome.failed, outcome.interrupted), (4, 1, true));
    assert_eq!(outcome.first_head, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n");
    let without = run(&Plan { ends_with: None, ..plan }, script);
    assert_eq!((without.ok, without.failed, without.interrupted), (9, 1, false));
}

#[test]
fn every_second_is_told() {
    let outcome = run(&plan(1, Stop::Requests(2_500)), |_| vec![(MS, page("x"))]);
    let told: Vec<_> = outcome.timeline.iter().map(|i| (i.ok, i.length.as_millis())).collect();
    assert_eq!(told, [(1_000, 1_000), (1_000, 1_000), (500, 500)]);
}

// ---- open loop ---------------------------------------------------------------------------------

fn paced(connections: u32, rps: f64, duration: Duration) -> Plan {
    Plan { pace: Some(Pace::steady(rps, duration)), ..plan(connections, Stop::After(duration)) }
}

#[test]
fn an_open_loop_begins_each_request_at_its_time() {
    let outcome = run(&paced(5, 100.0, Duration::from_secs(3)), |_| vec![(MS, page("x"))]);
    let open = outcome.open.unwrap();
    assert_eq!((outcome.sent, outcome.ok, open.unsent, open.queued), (300, 300, 0, 0));
    assert_eq!(outcome.duration, Duration::from_secs(3));
    assert!(is_near(outcome.latency.max_ns(), MS) && is_near(open.service.max_ns(), MS));
    assert_eq!((open.lag.count(), open.burst_max), (300, 0));
    assert!(open.lag.max_ns() <= 1_000, "{}", open.lag.max_ns());
}

/// Answers come fifty at a time and take the client half a millisecond: what comes due meanwhile
/// does not wait for the last of them.
#[test]
fn what_is_due_begins_between_the_answers_of_a_batch() {
    let script = |asked: Asked<'_>| vec![(5 * MS - asked.now_ns % (5 * MS), page("x"))];
    let sim = Sim::new(script).with_costly_reads(10_000);
    let (outcome, _) = run_in(sim, &paced(200, 10_000.0, Duration::from_secs(1)));
    let open = outcome.open.unwrap();
    assert_eq!((outcome.ok, open.lag.count(), open.queued), (10_000, 10_000, 0));
    let (p50_ns, max_ns) = (open.lag.quantile_ns(0.5), open.lag.max_ns());
    assert!(p50_ns <= 11_000 && max_ns <= 21_000, "{p50_ns} {max_ns}");
}

/// At 29.9 ms one connection's answer and the other's end come together; reading the answer takes
/// until after 30 ms, when the next request is due: not on the one whose end lies there unread.
#[test]
fn a_connection_whose_end_waits_in_the_batch_takes_no_request() {
    let script = |asked: Asked<'_>| match asked.number {
        1 => vec![(MS, page("x")), (19_900_000, Act::Close)],
        2 => vec![(9_900_000, page("x"))],
        _ => vec![(MS, page("x"))],
    };
    let sim = Sim::new(script).with_costly_reads(200_000);
    let (outcome, asked) = run_in(sim, &paced(2, 100.0, Duration::from_millis(50)));
    assert_eq!((outcome.ok, outcome.failed, outcome.reconnects, asked), (5, 0, 1, 5));
}

/// The example of wrk2's README: 1.4 s in which nothing is answered, in 30 s at 2,000 a second.
/// Who comes so long before its end waits so long: figures to be had with pencil and paper.
fn freeze(asked: Asked<'_>) -> Vec<(u64, Act)> {
    let (began, ended) = (1_000 * MS + LEAD + 10_000 * MS, 1_000 * MS + LEAD + 11_400 * MS);
    let frozen = (began..ended).contains(&asked.now_ns);
    vec![(if frozen { ended - asked.now_ns } else { 0 } + MS, page("x"))]
}

#[test]
fn who_waits_for_a_frozen_server_is_counted_from_the_planned_time() {
    let outcome = run(&paced(4_000, 2_000.0, Duration::from_secs(30)), freeze);
    assert_eq!((outcome.ok, outcome.open.unwrap().unsent), (60_000, 0));
    let at_ms = |p| outcome.latency.quantile_ns(p) as f64 / MS as f64;
    // 2,800 of 60,000 come while it is frozen; the k-th slowest waits 1,400 - k / 2 ms.
    for (p, wanted_ms) in [(0.5, 1.0), (0.95, 1.0), (0.96, 201.0), (0.99, 1101.0), (0.999, 1371.0)]
    {
        assert!((at_ms(p) / wanted_ms - 1.0).abs() < 0.02, "p{p}: {} {wanted_ms}", at_ms(p));
    }
}

/// With fewer connections than wait, the others wait in the schedule: that is in the latency, and
/// only the service time looks well.
#[test]
fn waiting_for_a_connection_is_waiting() {
    let outcome = run(&paced(20, 2_000.0, Duration::from_secs(30)), freeze);
    let open = outcome.open.as_ref().unwrap();
    assert_eq!((outcome.ok, open.unsent), (60_000, 0));
    assert!(
        outcome.latency.quantile_ns(0.99) > 1_000 * MS,
        "{}",
        outcome.latency.quantile_ns(0.99)
    );
    assert!(is_near(open.service.quantile_ns(0.999), MS));
    assert!(open.queued >= 2_780, "{}", open.queued);
    assert_eq!(open.queued + open.lag.count(), 60_000);
}

/// So many workers, first come first served; each answer takes 20 ms, or as long by chance in the
/// mean.
fn workers(number: usize, is_random: bool) -> impl FnMut(Asked<'_>) -> Vec<(u64, Act)> {
    let (mut free_ns, mut rng) = (vec![0; number], drom_stats::Rng::new(number as u64));
    move |asked| {
        let times = if is_random { -(1.0 - rng.unit()).ln() } else { 1.0 };
        let first = free_ns.iter_mut().min().expect("a worker");
        *first = asked.now_ns.max(*first) + (times * 20.0 * MS as f64) as u64;
        vec![(*first - asked.now_ns, page("x"))]
    }
}

/// Two cores that all requests under way share: an answer is there when all that came before it
/// have had their turns, and what came meanwhile as many.
fn shared(cores: f64) -> impl FnMut(Asked<'_>) -> Vec<(u64, Act)> {
    let mut under_way: Vec<u64> = Vec::new();
    move |asked| {
        under_way.retain(|end_ns| *end_ns > asked.now_ns);
        let slower = (under_way.len() as f64 + 1.0).max(cores) / cores;
        let took_ns = (slower * 20.0 * MS as f64) as u64;
        under_way.push(asked.now_ns + took_ns);
        vec![(took_ns, page("x"))]
    }
}

/// The rate is far above what any of them can: whose queue it is tells only what the server takes
/// while few requests are under way.
#[test]
fn whose_queue_it_is_is_seen_at_its_beginning() {
    let by = |connections, number, is_random, warmup_s| {
        let plan = paced(connections, 20_000.0, Duration::from_secs(5));
        let plan = Plan { warmup: Duration::from_secs(warmup_s), ..plan };
        let outcome = run_pipelined(&plan, workers(number, is_random)).0;
        crate::client_limited(&outcome, None).queued.expect("it is queued").by
    };
    for warmup_s in [0, 2] {
        // Whatever the server has, it was never seen with less to do.
        for connections in [1, 4, 7, 8, 10, 11] {
            assert_eq!(by(connections, 8, false, warmup_s), Queue::Unknown, "{connections}");
        }
        for connections in [16, 20, 40, 600] {
            assert_eq!(by(connections, 8, false, warmup_s), Queue::Server, "{connections}");
        }
        for connections in [2, 3, 10, 50] {
            assert_eq!(by(connections, 1, false, warmup_s), Queue::Server, "{connections}");
        }
    }
    assert_eq!(by(5, 200, true, 0), Queue::Unknown);
    assert_eq!(by(400, 100, true, 0), Queue::Server);
}

/// Where the server was seen with little to do before, it is known what it has.
#[test]
fn whose_queue_it_is_is_known_after_a_quiet_beginning() {
    let second = Duration::from_secs(1);
    let stages = vec![
        crate::schedule::Stage::steady(second, 20.0),
        crate::schedule::Stage::steady(5 * second, 20_000.0),
    ];
    let plan = |connections| {
        let pace = Pace { stages: stages.clone(), ..Pace::steady(1.0, second) };
        Plan { pace: Some(pace), ..plan(connections, Stop::After(6 * second)) }
    };
    let by = |outcome: Outcome| crate::client_limited(&outcome, None).queued.map(|q| q.by);
    let workers =
        |connections, number| by(run_pipelined(&plan(connections), workers(number, false)).0);
    for connections in [2, 4, 8] {
        assert_eq!(workers(connections, 8), Some(Queue::Client), "{connections}");
    }
    assert_eq!(workers(10, 8), Some(Queue::Unknown));
    assert_eq!(workers(16, 8), Some(Queue::Server));
    assert_eq!(workers(1, 8), Some(Queue::Unknown), "one place is never in use by others");
    let shared = |connections| by(run_pipelined(&plan(connections), shared(2.0)).0);
    assert_eq!((shared(2), shared(5)), (Some(Queue::Client), Some(Queue::Server)));
}

#[test]
fn what_finds_no_connection_until_the_end_is_unsent() {
    let outcome = run(&paced(1, 10.0, Duration::from_secs(2)), |_| vec![(450 * MS, page("x"))]);
    let open = outcome.open.unwrap();
    assert_eq!((outcome.sent, outcome.ok, outcome.in_flight, open.unsent), (5, 5, 0, 15));
    // The fifth was planned for 0.4 s and begins when four have had 0.45 s each.
    assert!(is_near(outcome.latency.max_ns(), (4 * 450 + 450 - 400) * MS));
}

/// A server for 100 a second is asked for 400, from half a second before the window on: what the
/// warm-up leaves over is sent in the window and was not planned in it.
#[test]
fn what_the_warm_up_leaves_over_is_told_apart() {
    let warmup = Duration::from_millis(500);
    let plan = Plan { warmup, ..paced(1, 400.0, Duration::from_secs(1)) };
    let outcome = run_in(Sim::new(|_| vec![(10 * MS, page("x"))]), &plan).0;
    let open = outcome.open.unwrap();
    // 50 of 200 are answered before the window opens, and a hundred in it.
    assert_eq!((outcome.sent, open.unsent, open.carried), (100, 450, 150));
    assert_eq!(open.planned(outcome.sent), 400);
}

#[test]
fn a_server_may_close_a_connection_that_is_free() {
    let script = |_: Asked| vec![(MS, page("x")), (3 * MS, Act::Close)];
    let outcome = run(&paced(2, 100.0, Duration::from_secs(1)), script);
    assert_eq!((outcome.ok, outcome.failed), (100, 0));
    let slowest_ns = outcome.latency.max_ns();
    assert!(is_near(slowest_ns, MS), "connects are no part of it: {slowest_ns}");
    assert!(outcome.reconnects >= 90, "{}", outcome.reconnects);
}

/// A place without a connection needs none to be free: what was planned while the thread had no CPU
/// is late, not unsent.
#[test]
fn a_thread_that_comes_late_sends_what_places_were_free_for() {
    let script = |_: Asked<'_>| vec![(MS, page("x")), (MS, Act::Close)];
    let plan = Plan { keepalive: false, ..paced(20, 2_000.0, Duration::from_millis(10)) };
    for late_ns in [0, LEAD + 3 * MS, 500 * MS] {
        let (outcome, asked) = run_late(Sim::new(script), &plan, late_ns);
        let open = outcome.open.unwrap();
        assert_eq!((asked, outcome.ok, open.unsent, open.queued), (20, 20, 0, 0), "{late_ns}");
        assert!(open.lag.max_ns() >= late_ns.saturating_sub(LEAD), "{late_ns}");
    }
}

#[test]
fn answers_after_the_window_are_waited_for() {
    let script =
        |asked: Asked<'_>| vec![(if asked.number == 9 { 5_000 * MS } else { MS }, page("x"))];
    let outcome = run(&paced(3, 10.0, Duration::from_secs(1)), script);
    assert_eq!((outcome.ok, outcome.in_flight, outcome.duration), (10, 0, Duration::from_secs(1)));
    assert!(is_near(outcome.latency.max_ns(), 5_000 * MS));
    let open = outcome.open.as_ref().expect("an open loop");
    assert_eq!((open.drained, open.drained_bytes), (1, outcome.bytes_read / 10));
    assert!((outcome.rate_rps() - 9.0).abs() < 1e-9, "the tenth is in no rate");
    assert!((outcome.read_per_s() - outcome.bytes_read as f64 * 0.9).abs() < 1e-6);
    let plan = Plan { timeout: Duration::from_secs(2), ..paced(3, 10.0, Duration::from_secs(1)) };
    let outcome =
        run(&plan, |asked| vec![(if asked.number == 9 { 5_000 * MS } else { MS }, page("x"))]);
    assert_eq!((outcome.ok, outcome.errors[&ErrorKind::Timeout]), (9, 1));
}

#[test]
fn a_first_byte_that_is_late_is_told_from_a_whole_that_is() {
    let ms = Duration::from_millis;
    let plan =
        Plan { first_byte_timeout: Some(ms(20)), timeout: ms(100), ..plan(1, Stop::Requests(6)) };
    let begun = || Act::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".to_vec());
    let script = move |asked: Asked<'_>| match asked.number % 3 {
        0 => vec![(30 * MS, page("x"))],
        1 => vec![(10 * MS, begun()), (90 * MS, Act::Send(b"ok".to_vec()))],
        _ => vec![(10 * MS, begun())],
    };
    let outcome = run(&plan, script);
    let errors = |kind| outcome.errors[&kind];
    assert_eq!(
        (outcome.ok, errors(ErrorKind::FirstByteTimeout), errors(ErrorKind::Timeout)),
        (2, 2, 2)
    );
    let least_ns = outcome.error_latency.quantile_ns(0.0);
    assert!(least_ns.abs_diff(20 * MS) < 2 * MS, "{least_ns}");
}

/// 10,000 bytes at 100,000 a second: read in shares of 20 ms, the sum is exact.
#[test]
fn a_throttled_connection_reads_at_its_rate() {
    let body = "x".repeat(9_000);
    let size = body.len() as u64 + 41;
    let script = move |_: Asked<'_>| vec![(0, page(&body))];
    let plan = Plan { throttle: Some(100_000), ..plan(2, Stop::Requests(20)) };
    let outcome = run(&plan, script);
    assert_eq!((outcome.ok, outcome.bytes_read), (20, 20 * size));
    // Of the last share of each connection nobody waits for the end.
    let (took, whole) = (outcome.duration.as_secs_f64(), 10.0 * size as f64 / 100_000.0);
    assert!(took <= whole && took >= whole - 0.0201, "{took} of {whole}");
    assert_eq!(outcome.reconnects, 0);
    let unread = Plan { throttle: None, ..plan };
    let script = |_: Asked<'_>| vec![(MS / 10, page("x"))];
    assert_eq!(run(&unread, script).duration, Duration::from_millis(1));
}

/// Each read comes to its end a tenth of a millisecond late.
#[test]
fn a_throttle_makes_up_for_late_reads() {
    let body = "x".repeat(99_000);
    let size = body.len() as f64 + 42.0;
    let sim = Sim::new(move |_: Asked<'_>| vec![(0, page(&body))]).with_costly_reads(MS / 10);
    let plan = Plan { throttle: Some(100_000), ..plan(1, Stop::Requests(2)) };
    let (outcome, _) = run_in(sim, &plan);
    let (took, whole) = (outcome.duration.as_secs_f64(), 2.0 * size / 100_000.0);
    assert!((took - whole).abs() < 0.0201, "{took} of {whole}");
}

#[test]
fn a_connection_that_ends_while_it_may_not_read_is_seen_to_end() {
    let script = |_: Asked<'_>| {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned();
        vec![(0, Act::Send((head + &"x".repeat(5_000)).into_bytes())), (MS, Act::Close)]
    };
    let plan = Plan { throttle: Some(100_000), ..plan(1, Stop::Requests(2)) };
    let outcome = run(&plan, script);
    assert_eq!((outcome.ok, outcome.body_bytes), (2, 10_000));
}
