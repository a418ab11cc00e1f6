//! What httperf says of sessions, from the records of a run. Pure.

use std::collections::BTreeMap;

use drom_load::Record;

use super::{
    Calls, Options,
    report::{Spread, rates},
};

/// How sessions ended. What was cut off by the end of the run is none of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sessions {
    pub ok: u64,
    pub failed: u64,
    /// Of those that were completed, per second.
    pub rates: Spread,
    pub connections: f64,
    pub lifetime_s: f64,
    pub failtime_s: f64,
    /// How many had 0, 1, 2 and more replies.
    pub lengths: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Session {
    /// That belong to it.
    calls: u64,
    begun_ns: u64,
    ended_ns: u64,
    replies: u64,
    connections: u64,
    has_failed: bool,
}

impl Sessions {
    pub(super) fn of(options: &Options, calls: &Calls, records: &[Record], whole_s: f64) -> Self {
        let all = sessions(calls, records);
        let (failed, good): (Vec<Session>, Vec<Session>) =
            all.iter().partition(|session| session.has_failed);
        let ends: Vec<u64> = good.iter().map(|session| session.ended_ns).collect();
        let mut lengths = Vec::new();
        for session in &all {
            let length = session.replies as usize;
            lengths.resize(lengths.len().max(length + 1), 0);
            lengths[length] += 1;
        }
        let mean =
            |sum: f64, of: &[Session]| if of.is_empty() { 0.0 } else { sum / of.len() as f64 };
        let lasted = |of: &[Session]| mean(of.iter().map(Session::seconds).sum(), of);
        let mut rates = Spread::of(&rates(options, records, &ends));
        rates.mean = if whole_s > 0.0 { good.len() as f64 / whole_s } else { 0.0 };
        Self {
            ok: good.len() as u64,
            failed: failed.len() as u64,
            rates,
            connections: mean(good.iter().map(|s| s.connections as f64).sum(), &good),
            lifetime_s: lasted(&good),
            failtime_s: lasted(&failed),
            lengths,
        }
    }

    pub(super) fn text(&self) -> String {
        let Spread { min, mean, max, sd } = self.rates;
        let lengths: String = self.lengths.iter().map(|count| format!(" {count}")).collect();
        format!(
            "\nSession rate [sess/s]: min {min:.2} avg {mean:.2} max {max:.2} stddev {sd:.2} \
             ({}/{})\n\
             Session: avg {:.2} connections/session\n\
             Session lifetime [s]: {:.1}\n\
             Session failtime [s]: {:.1}\n\
             Session length histogram:{lengths}\n",
            self.ok,
            self.ok + self.failed,
            self.connections,
            self.lifetime_s,
            self.failtime_s,
        )
    }
}

impl Session {
    fn seconds(&self) -> f64 {
        self.ended_ns.saturating_sub(self.begun_ns) as f64 / 1e9
    }
}

/// A user's calls one after the other are sessions one after the other: each ends with its last
/// call, or with one that has failed and all that were written together with it.
fn sessions(calls: &Calls, records: &[Record]) -> Vec<Session> {
    let mut under_way: BTreeMap<u32, Session> = BTreeMap::new();
    let mut failed_ns: BTreeMap<u32, u64> = BTreeMap::new();
    let mut ended = Vec::new();
    for record in records {
        let user = record.exchange.user;
        if record.error.is_some()
            && failed_ns.insert(user, record.ended_ns) == Some(record.ended_ns)
        {
            continue;
        }
        let session = under_way.entry(user).or_insert(Session {
            calls: calls.length(record.exchange.row),
            begun_ns: record.exchange.begun_ns,
            ended_ns: 0,
            replies: 0,
            connections: 0,
            has_failed: false,
        });
        session.ended_ns = record.ended_ns;
        session.connections += u64::from(record.on_socket == 0);
        session.replies += u64::from(record.status > 0);
        session.has_failed = record.error.is_some() && !record.is_repeated;
        if session.has_failed || session.replies == session.calls {
            ended.extend(under_way.remove(&user));
        }
    }
    ended
}
