//! The self-checks of one slice: pure, from what was observed around it. Codes and their stories
//! are in the catalogue of `drom_report`.

use drom_load::{BadBody, ExpectedBody, Outcome};
use drom_observe::Counters;
use drom_report::format::time;
use drom_store::Flag;

use crate::answers::beginning;

/// All that is known of one slice.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub outcome: &'a Outcome,
    pub connections: u32,
    pub expected: Option<ExpectedBody>,
    /// What the machine did meanwhile.
    pub machine: Counters,
    pub server_cpu_s: f64,
    pub client_cpu_s: f64,
    /// The slice with its settling time, by both clocks.
    pub elapsed_s: f64,
    pub wall_s: f64,
    /// Processes that served before and are gone.
    pub deaths: usize,
    pub ceiling_rps: Option<f64>,
}

/// Codes whose cause lies outside of the variant: such a slice is measured again.
pub const OUTSIDE: &[&str] = &["L6", "L9"];

/// Every check that failed.
#[must_use]
pub fn of_slice(seen: &Observed<'_>) -> Vec<Flag> {
    let client = drom_load::client_limited(seen.outcome, seen.ceiling_rps);
    let checks = [
        ("L1", little(seen)),
        ("L2", (client.near && !client.limited).then(|| client.evidence.clone())),
        ("C1", client.limited.then_some(client.evidence)),
        ("L3", starvation(seen)),
        ("L4", wrong_answers(seen)),
        ("L5", connections(seen)),
        ("L6", disturbed(seen)),
        ("L7", listen_queue(seen)),
        ("L8", deaths(seen)),
        ("L9", clock(seen)),
        ("L10", swapped(seen)),
        ("L11", silence(seen)),
    ];
    let failed = checks.into_iter().filter_map(|(code, detail)| Some((code, detail?)));
    failed.map(|(code, detail)| flag(code, detail)).collect()
}

#[must_use]
pub fn flag(code: &str, detail: String) -> Flag {
    Flag { code: code.to_owned(), detail }
}

/// CPU time of processes that are neither the server's nor ours.
#[must_use]
pub fn foreign_cpu_s(seen: &Observed<'_>) -> f64 {
    (seen.machine.busy_s - seen.server_cpu_s - seen.client_cpu_s).max(0.0)
}

/// After the warm-up against after a slice. Forked workers unshare pages while they warm up (3 MB
/// in the first second of an httpd of 12 MB, 1.2 MB a worker with mod_perl, measured), so only what
/// goes well beyond that is growth.
#[must_use]
pub fn memory_growth(before_bytes: u64, after_bytes: u64, processes: usize) -> Option<Flag> {
    let grown = after_bytes.saturating_sub(before_bytes);
    let share = grown as f64 / before_bytes.max(1) as f64;
    let unshared = 2_000_000 * processes as u64;
    (share > 0.25 && grown > unshared.max(8_000_000)).then(|| {
        let (before, after) = (before_bytes as f64 / 1e6, after_bytes as f64 / 1e6);
        flag("L10", format!("server memory {before:.1} -> {after:.1} MB in one start"))
    })
}

/// N = X R, by the engine's own account of what every connection did at every moment of the window,
/// so that requests under way at its ends are no gap. The client's own CPU time is none either.
fn little(seen: &Observed<'_>) -> Option<String> {
    let window_s = seen.outcome.duration.as_secs_f64();
    if seen.outcome.waited().count() == 0 || window_s <= 0.0 {
        return None;
    }
    if let Some(tail) = rare_and_huge(seen.outcome) {
        return Some(tail);
    }
    let gap = seen.outcome.little_deviation();
    let client: f64 = seen.outcome.thread_cpu.iter().map(|cpu| cpu.as_secs_f64()).sum();
    let n = f64::from(seen.connections);
    let tolerance = 0.02 + client / (n * window_s);
    (gap.abs() > tolerance)
        .then(|| format!("{:.1} of {n} connections accounted for", n * (1.0 - gap.abs())))
}

/// Whether no request of a slice ended, well or badly.
#[must_use]
pub fn is_silent(ok: u64, failed: u64) -> bool {
    ok == 0 && failed == 0
}

fn silence(seen: &Observed<'_>) -> Option<String> {
    let outcome = seen.outcome;
    is_silent(outcome.ok, outcome.failed).then(|| {
        let (waiting, slice) = (outcome.in_flight, time(outcome.duration.as_secs_f64()));
        format!("{waiting} requests waited for all of the {slice} of a slice")
    })
}

/// A mean above the p99 is made by less than one answer in a hundred: they stalled.
fn rare_and_huge(outcome: &Outcome) -> Option<String> {
    let (mean_ns, p99_ns) = (outcome.waited().mean_ns(), outcome.waited().quantile_ns(0.99) as f64);
    (outcome.waited().count() >= 1_000 && mean_ns > 1.01 * p99_ns)
        .then(|| format!("mean {:.2} ms above p99 {:.2} ms", mean_ns * 1e-6, p99_ns * 1e-6))
}

/// Connections without any answer, where there were answers enough to tell.
#[must_use]
pub fn never_answered(outcome: &Outcome, connections: u32) -> u32 {
    if !enough_to_share(outcome, connections) {
        return 0;
    }
    outcome.answers_per_connection.iter().filter(|n| **n == 0).count() as u32
}

fn enough_to_share(outcome: &Outcome, connections: u32) -> bool {
    outcome.answers_per_connection.iter().sum::<u64>() >= 20 * u64::from(connections)
}

/// Jain's index of the answers per connection, where there were enough to tell.
fn starvation(seen: &Observed<'_>) -> Option<String> {
    let never = never_answered(seen.outcome, seen.connections);
    let fairness = seen.outcome.fairness();
    let connections = if never == 1 { "connection" } else { "connections" };
    (enough_to_share(seen.outcome, seen.connections) && (fairness < 0.5 || never > 0))
        .then(|| format!("{never} {connections} never answered, Jain's index {fairness:.2}"))
}

fn wrong_answers(seen: &Observed<'_>) -> Option<String> {
    let outcome = seen.outcome;
    // None at all is no wrong one: L11 says so.
    if outcome.failed == 0 {
        return None;
    }
    let bad_status = outcome.status.iter().filter(|(status, _)| **status >= 400);
    let by_status = bad_status.map(|(status, count)| format!("{count} x {status}"));
    let by_error = outcome.errors.iter().map(|(kind, n)| format!("{n} x {}", kind.name()));
    let what: Vec<String> = by_status.chain(by_error).collect();
    let what = what.join(", ");
    let bad = outcome.first_bad_body.as_ref();
    let unlike = bad.map_or_else(String::new, |bad| format!(" ({})", unlike(bad, seen.expected)));
    Some(format!("{} of {} failed: {what}{unlike}", outcome.failed, outcome.sent))
}

/// What came and what should have come.
fn unlike(bad: &BadBody, expected: Option<ExpectedBody>) -> String {
    let sum = |length: u64, hash: Option<u64>| {
        let hash = hash.map_or_else(String::new, |hash| format!(", XXH64 {hash:016x}"));
        format!("{length} bytes{hash}")
    };
    let got = sum(bad.length, expected.and_then(|e| e.hash).map(|_| bad.hash));
    let wanted = expected.map_or_else(|| "another".to_owned(), |e| sum(e.length, e.hash));
    format!("expected {wanted}; the first one has {got}: {}", beginning(&bad.part))
}

fn connections(seen: &Observed<'_>) -> Option<String> {
    let (up, asked) = (seen.outcome.connected, seen.connections);
    (up < asked).then(|| format!("{up} of {asked} established"))
}

fn disturbed(seen: &Observed<'_>) -> Option<String> {
    let machine = &seen.machine;
    let steal = machine.steal_s / machine.total_s.max(1e-9);
    if machine.total_s > 0.0 && steal > 0.01 {
        return Some(format!("{:.1} % stolen", 100.0 * steal));
    }
    if machine.throttled_s > 0.0 {
        return Some(format!("throttled for {:.0} ms", 1e3 * machine.throttled_s));
    }
    // The kernel counts busy time in steps of 10 ms: two of them are no stranger.
    let foreign = foreign_cpu_s(seen);
    (foreign > 0.10 * seen.elapsed_s + 0.02)
        .then(|| format!("strangers used {:.0} % of a core", 100.0 * foreign / seen.elapsed_s))
}

fn listen_queue(seen: &Observed<'_>) -> Option<String> {
    let lost = seen.machine.listen_overflows.max(seen.machine.listen_drops);
    if lost > 0 {
        return Some(format!("{lost} connections overflowed a listen queue"));
    }
    let latency = seen.outcome.waited();
    // A retransmitted SYN adds 1, 3 or 7 s to an answer that is otherwise quick.
    let quick_ns = latency.quantile_ns(0.5) as f64;
    if latency.count() == 0 || quick_ns > 2e8 {
        return None;
    }
    [1.0e9, 3.0e9, 7.0e9].into_iter().find_map(|timer_ns| {
        let (low, high) = (timer_ns as u64, (timer_ns * 1.05 + quick_ns) as u64);
        let late = latency.histogram().count_between(low, high);
        (late > 0)
            .then(|| format!("{late} answers just over {:.0} s: a SYN sent again", timer_ns * 1e-9))
    })
}

fn deaths(seen: &Observed<'_>) -> Option<String> {
    let processes = if seen.deaths == 1 { "process" } else { "processes" };
    (seen.deaths > 0).then(|| format!("{} server {processes} ended", seen.deaths))
}

fn clock(seen: &Observed<'_>) -> Option<String> {
    let apart = seen.wall_s - seen.elapsed_s;
    (apart.abs() > 0.050).then(|| format!("the clocks moved apart by {:.0} ms", 1e3 * apart))
}

fn swapped(seen: &Observed<'_>) -> Option<String> {
    let pages = seen.machine.swapped_pages;
    (pages > 0).then(|| format!("{pages} pages swapped"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_is_not_a_wrong_one() {
        let outcome = Outcome { sent: 4, in_flight: 4, ..Outcome::default() };
        let seen = Observed {
            outcome: &outcome,
            connections: 4,
            expected: None,
            machine: Counters::default(),
            server_cpu_s: 0.0,
            client_cpu_s: 0.0,
            elapsed_s: 1.0,
            wall_s: 1.0,
            deaths: 0,
            ceiling_rps: None,
        };
        assert_eq!(wrong_answers(&seen), None);
        assert_eq!(little(&seen), None);
        assert!(silence(&seen).is_some_and(|told| told.contains("4 requests waited")));
    }

    #[test]
    fn a_mean_above_the_p99_is_a_stall() {
        let mut outcome = Outcome::default();
        (0..1_000).for_each(|_| outcome.latency.record_ns(100_000));
        assert!(rare_and_huge(&outcome).is_none());
        (0..5).for_each(|_| outcome.latency.record_ns(1_000_000_000));
        assert!(rare_and_huge(&outcome).is_some_and(|told| told.contains("above p99 0.10 ms")));
    }

    #[test]
    fn what_workers_unshare_after_a_fork_is_no_leak() {
        let mb = |mb: u64| mb * 1_000_000;
        assert!(memory_growth(mb(5), mb(14), 9).is_none(), "httpd with eight workers");
        assert!(
            memory_growth(mb(5), mb(24), 9).is_some() && memory_growth(mb(5), mb(14), 2).is_some()
        );
        assert!(memory_growth(mb(100), mb(120), 2).is_none(), "under a quarter");
    }
}
