//! Which calls a run of httperf makes: one again and again, or what `--wset` and `--wlog` say, on
//! connections with several calls or in sessions with pauses. Pure.
//!
//! Each different request is a row; what a connection or session does is a scenario that takes a
//! row for each call.

use super::{Options, Printed, Wset, request_of};

/// A run with more to it than one request again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Row by row.
    pub requests: Vec<Vec<u8>>,
    /// Connections, or sessions.
    pub rounds: u64,
    /// In each.
    pub calls: u64,
    /// In the scenario's language, with a file [`Calls::FILE`] of [`Calls::rows`].
    pub scenario: String,
}

impl Calls {
    pub const FILE: &'static str = "calls.csv";

    /// `None`: the engine needs no scenario for it. `log` is what the file of `--wlog` holds.
    #[must_use]
    pub fn of(options: &Options, log: &str) -> Option<Self> {
        let is_several = options.rate > 0.0 && options.num_calls > 1;
        let has_list = options.wset.is_some() || options.wlog.is_some();
        if !is_several && !has_list && options.wsess.is_none() {
            return None;
        }
        let session = options.wsess.map(|wsess| (wsess.sessions, wsess.calls));
        let (rounds, calls) = session.unwrap_or((options.num_conns, options.num_calls));
        let uris = uris(options, log, rounds.saturating_mul(calls));
        let ends = options.wlog.as_ref().is_some_and(|wlog| !wlog.wraps);
        let most = (uris.len() as u64).div_ceil(calls.max(1));
        let rounds = if ends { rounds.min(most) } else { rounds };
        let scenario = scenario(options, calls, ends);
        let requests = uris.iter().map(|uri| request_of(options, uri)).collect();
        Some(Self { requests, rounds, calls, scenario })
    }

    /// The file that the scenario names.
    #[must_use]
    pub fn rows(&self) -> String {
        let numbers = (0..self.requests.len()).map(|row| format!("{row}\n"));
        "row\n".to_owned() + &numbers.collect::<String>()
    }
}

/// What is asked for, call by call, as far as it does not begin again.
fn uris(options: &Options, log: &str, calls: u64) -> Vec<String> {
    if let Some(wset) = options.wset {
        let (id, of) = options.client;
        return (0..calls).map(|call| page(options, wset, call, (id, of))).collect();
    }
    match options.wlog {
        None => vec![options.uri.clone()],
        Some(_) => log.split('\0').filter(|uri| !uri.is_empty()).map(str::to_owned).collect(),
    }
}

/// Page 12 of 1000 is `/0/1/2.html`. The clients take turns.
fn page(options: &Options, wset: Wset, call: u64, (id, of): (u32, u32)) -> String {
    let steps = (wset.step * (call + 1) as f64) as u64;
    let number = u64::from(id).wrapping_add(steps.wrapping_mul(u64::from(of))) % wset.pages;
    let digits = (wset.pages - 1).to_string().len();
    let path: String =
        format!("{number:0digits$}").chars().flat_map(|digit| ['/', digit]).collect();
    format!("{}{path}.html", options.uri.trim_end_matches('/'))
}

/// A round is a connection or session: bursts with pauses between them.
fn scenario(options: &Options, calls: u64, ends: bool) -> String {
    let burst = u64::from(options.burst_length.max(1));
    let think_s = options.wsess.map_or(0.0, |wsess| wsess.think_s);
    let mut text = format!(
        "base = \"http://server\"\n\
         [feeder.calls]\nfile = \"{}\"\ntake = \"request\"\nonce = {ends}\n",
        Calls::FILE
    );
    let method = options.method.as_deref().unwrap_or("GET");
    let call = |name: &str, times: u64| {
        let step = format!("[[{name}]]\nurl = \"/{{{{calls.row}}}}\"\nmethod = {method:?}\n");
        step + &format!("repeat = {times}\n")
    };
    // Behind the last burst there is no pause.
    let paused = if think_s > 0.0 { calls.saturating_sub(1) / burst } else { 0 };
    if paused > 0 {
        text += &format!("[[step]]\nrepeat = {paused}\n");
        text += &call("step.step", burst);
        text += &format!("[[step.step]]\nthink = \"{}us\"\n", (think_s * 1e6) as u64);
    }
    text + &call("step", calls - paused * burst)
}

/// `--print-request`: of so many requests, by their rows.
#[must_use]
pub fn printed(part: Printed, requests: &[&[u8]]) -> String {
    let mut text = String::new();
    for (number, request) in requests.iter().enumerate() {
        let head = String::from_utf8_lossy(request);
        if part != Printed::Body {
            let lines = head.trim_end_matches("\r\n").split("\r\n").chain([""]);
            lines.for_each(|line| text += &format!("SH{number}:{line}\n"));
        }
        text += &format!("SS{number}: header {} content 0\n", request.len());
    }
    text
}
