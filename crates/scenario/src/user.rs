//! One user on the way through a scenario. The engine asks [`User::next`] what to do, does it, and
//! tells what came of it by [`User::answered`] or [`User::failed`]. Nothing here knows how requests
//! travel, and time only comes in: a run in a simulator is the same as one on a network.

use drom_stats::Rng;

use crate::{
    build::Own,
    check::{Answer, Eye, From},
    cookies::{Jar, Place},
    feeder::{Take, weighted},
    head,
    origin::{Parts, escape_target, put_relative, put_target},
    scenario::{Op, Scenario, Session, Step, StopOn, Think},
    share::Share,
};

#[derive(Debug)]
pub struct User {
    state: State,
    flow: usize,
    /// The next operation of the flow.
    at: usize,
    /// From where on operations were left out when the iteration was stopped.
    stopped_at: Option<usize>,
    /// How often each open loop is still to be run, this time included.
    loops: Vec<u32>,
    wake_ns: u64,
    jar: Jar,
    own: Own,
    went: Went,
}

/// Where the last request went.
#[derive(Debug, Default)]
pub(crate) struct Went {
    pub origin: usize,
    pub target: Vec<u8>,
    /// The target before a redirect.
    from: Vec<u8>,
    /// How many redirects led there.
    pub redirects: u32,
    /// A redirect made a GET of it.
    pub is_plain: bool,
    /// A redirect led to another server, which is not to see what was meant for the first.
    pub is_elsewhere: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between two iterations.
    Outside,
    Inside,
    Sent {
        step: usize,
    },
    Redirected {
        step: usize,
    },
}

/// What the user does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// [`Share::request`] goes out; then comes [`User::answered`] or [`User::failed`].
    Send,
    /// A request of this step cannot be written; counted as a failed check. Ask again.
    Unsent { step: usize, why: Unsent },
    /// Ask again at this time.
    Pause { until_ns: u64 },
    /// An iteration is over. Asked again, the user begins the next one.
    Done,
    /// The rows of this feeder were to be taken once, and all were: the user has no more to do.
    Exhausted { feeder: usize },
}

/// Why a request cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The variable has no value: its capture found nothing, or comes later.
    Unset { variable: usize },
    /// A value would break the request line: what is no method.
    Method,
    /// A value with a space, a line end or a letter that is not ASCII in a URL; use `|url`.
    Target,
    /// A value with a line end in a header field.
    Field,
    /// A URL of a server that the scenario does not name in `origins`.
    Elsewhere,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    pub step: usize,
    /// A redirect is followed: nothing was judged yet.
    pub is_redirect: bool,
    pub passed: u32,
    pub failed: u32,
    /// The first check that failed.
    pub first_failed: Option<usize>,
    /// The rest of the iteration is left out.
    pub is_stopped: bool,
}

enum Redirect {
    None,
    Followed,
    /// Too many of them, or to a server that nobody named.
    Refused,
}

impl User {
    /// The user's number decides what is random about it; no two of a run have the same.
    #[must_use]
    pub fn new(scenario: &Scenario, share: &Share, number: u64) -> Self {
        Self {
            state: State::Outside,
            flow: 0,
            at: 0,
            stopped_at: None,
            loops: Vec::new(),
            wake_ns: 0,
            jar: Jar::default(),
            own: Own::new(scenario, share.seed, number),
            went: Went::default(),
        }
    }

    /// Makes another user of this one, who knows nothing of it; the memory stays.
    pub fn renew(&mut self, share: &Share, number: u64) {
        self.state = State::Outside;
        self.own.renew(share.seed, number);
    }

    #[must_use]
    pub fn number(&self) -> u64 {
        self.own.number
    }

    /// Steps of the iteration that were left out because an earlier one ended it.
    pub fn skipped<'s>(&self, scenario: &'s Scenario) -> impl Iterator<Item = usize> + use<'s> {
        let ops = &scenario.flows[self.flow].ops;
        ops[self.stopped_at.unwrap_or(ops.len())..].iter().filter_map(|op| match op {
            Op::Send(step) => Some(*step),
            _ => None,
        })
    }

    pub fn next(&mut self, scenario: &Scenario, share: &mut Share, now_ns: u64) -> Next {
        match self.state {
            State::Outside => {
                if let Err(feeder) = self.begin(scenario, share) {
                    return Next::Exhausted { feeder };
                }
            }
            State::Redirected { step } => return self.send(scenario, share, step, now_ns),
            State::Inside => {}
            // Nobody said what became of the request: then it has failed.
            State::Sent { .. } => self.failed(scenario, share),
        }
        if now_ns < self.wake_ns {
            return Next::Pause { until_ns: self.wake_ns };
        }
        self.go_on(scenario, share, now_ns)
    }

    /// Judges the answer to the request that was sent.
    pub fn answered(
        &mut self,
        scenario: &Scenario,
        share: &mut Share,
        answer: &Answer<'_>,
        now_ns: u64,
    ) -> Judgement {
        let State::Sent { step: number } = self.state else { return Judgement::default() };
        let step = &scenario.steps[number];
        self.state = State::Inside;
        share.verdicts.clear();
        let now_s = share.unix_s(now_ns);
        if scenario.has_cookies {
            let refused = self.jar.take(self.went.place(scenario), answer.head, now_s);
            share.counts.cookies_refused += u64::from(refused);
        }
        let redirect = self.redirect(scenario, step, answer);
        if matches!(redirect, Redirect::Followed) {
            self.state = State::Redirected { step: number };
            return Judgement { step: number, is_redirect: true, ..Judgement::default() };
        }
        let mut plain = std::mem::take(&mut share.plain);
        let is_packed = step.can_be_packed && is_gzip(answer.head);
        let body = match is_packed && share.unpacker.unpack(answer.body, &mut plain) {
            true => &plain,
            false => answer.body,
        };
        let seen = Answer { body, ..*answer };
        self.check(scenario, share, step, &seen);
        let has_captured = self.capture(scenario, share, step, &seen, now_s);
        share.plain = plain;
        if let Some(check) = step.redirect_check {
            share.judge(check, matches!(redirect, Redirect::None));
        }
        let mut judgement = judgement(number, share);
        judgement.is_stopped = match step.stop_on {
            StopOn::Never => false,
            StopOn::Capture => !has_captured,
            StopOn::Check => judgement.failed > 0,
        };
        if judgement.is_stopped {
            self.stop(scenario);
        }
        judgement
    }

    /// There was no answer: refused, reset, timed out. Whether the iteration goes on is `stop_on`'s
    /// affair.
    pub fn failed(&mut self, scenario: &Scenario, share: &mut Share) {
        share.verdicts.clear();
        let (State::Sent { step } | State::Redirected { step }) = self.state else { return };
        self.state = State::Inside;
        if scenario.steps[step].stop_on != StopOn::Never {
            self.stop(scenario);
        }
    }

    /// A new iteration; the feeder that has no more rows is why there is none.
    fn begin(&mut self, scenario: &Scenario, share: &mut Share) -> Result<(), usize> {
        let is_first = self.own.iteration == 0;
        for (at, feeder) in scenario.feeders.iter().enumerate() {
            if feeder.take == Take::Iteration || (feeder.take == Take::User && is_first) {
                let row = share.take_row(scenario, at, &mut self.own.rng);
                self.own.rows[at] = row.ok_or(at)?;
            }
        }
        self.own.iteration += 1;
        if is_first || scenario.session == Session::Iteration {
            self.jar.clear();
            self.own.set_variables(scenario, share);
        }
        self.flow = match scenario.flows.len() {
            1 => 0,
            ways if share.takes_ways_in_turn => share.next_way(ways),
            _ => weighted(&scenario.weights, &mut self.own.rng),
        };
        (self.at, self.wake_ns, self.state) = (0, 0, State::Inside);
        self.stopped_at = None;
        self.loops.clear();
        Ok(())
    }

    fn go_on(&mut self, scenario: &Scenario, share: &mut Share, now_ns: u64) -> Next {
        while let Some(op) = scenario.flows[self.flow].ops.get(self.at) {
            self.at += 1;
            match *op {
                Op::Send(step) => {
                    (self.went.redirects, self.went.is_plain) = (0, false);
                    self.went.is_elsewhere = false;
                    return self.send(scenario, share, step, now_ns);
                }
                Op::Pause(think) => {
                    self.wake_ns = now_ns.saturating_add(think.draw(&mut self.own.rng));
                    return Next::Pause { until_ns: self.wake_ns };
                }
                Op::Begin { least, most, behind } => {
                    let more = self.own.rng.below((most - least) as usize + 1) as u32;
                    match least + more {
                        0 => self.at = behind,
                        times => self.loops.push(times),
                    }
                }
                Op::End { begin } => self.end_of_loop(begin),
                Op::Maybe { chance, behind } => {
                    if self.own.rng.unit() >= chance {
                        self.at = behind;
                    }
                }
            }
        }
        self.state = State::Outside;
        Next::Done
    }

    fn end_of_loop(&mut self, begin: usize) {
        let Some(times) = self.loops.last_mut() else { return };
        *times -= 1;
        if *times > 0 {
            self.at = begin + 1;
        } else {
            self.loops.pop();
        }
    }

    fn stop(&mut self, scenario: &Scenario) {
        self.stopped_at = Some(self.at);
        self.at = scenario.flows[self.flow].ops.len();
    }

    fn send(&mut self, scenario: &Scenario, share: &mut Share, number: usize, now_ns: u64) -> Next {
        let step = &scenario.steps[number];
        let is_redirect = self.went.redirects > 0;
        for &feeder in step.takes.iter().filter(|_| !is_redirect) {
            let Some(row) = share.take_row(scenario, feeder, &mut self.own.rng) else {
                self.state = State::Outside;
                return Next::Exhausted { feeder };
            };
            self.own.rows[feeder] = row;
        }
        if step.uses_sequence && !is_redirect {
            self.own.sequence = share.next_in_sequence();
        }
        share.request.begin(number, step.wants);
        let now_s = share.unix_s(now_ns);
        match self.own.build(scenario, share, step, &mut self.went, (&self.jar, now_s)) {
            Ok(()) => {
                if let Some(check) = step.request_check.filter(|_| !is_redirect) {
                    share.counts.count(check, true);
                }
                self.state = State::Sent { step: number };
                Next::Send
            }
            Err(why) => self.unsent(scenario, share, number, why),
        }
    }

    fn unsent(
        &mut self,
        scenario: &Scenario,
        share: &mut Share,
        number: usize,
        why: Unsent,
    ) -> Next {
        let step = &scenario.steps[number];
        share.verdicts.clear();
        if let Some(check) = step.request_check {
            share.judge(check, false);
        }
        self.state = State::Inside;
        if step.stop_on != StopOn::Never {
            self.stop(scenario);
        }
        Next::Unsent { step: number, why }
    }

    fn check(&mut self, scenario: &Scenario, share: &mut Share, step: &Step, answer: &Answer<'_>) {
        for (at, check) in step.checks.iter().enumerate() {
            let mut eye =
                Eye { answer: *answer, tools: &mut share.tools, scratch: &mut share.scratch };
            let passed = check.holds(&mut eye, &mut self.own.values(scenario));
            share.judge(step.first_check + at, passed);
        }
    }

    /// Whether all captures found something.
    fn capture(
        &mut self,
        scenario: &Scenario,
        share: &mut Share,
        step: &Step,
        answer: &Answer<'_>,
        now_s: i64,
    ) -> bool {
        let mut all = true;
        for (at, capture) in step.captures.iter().enumerate() {
            let cookie = match &capture.from {
                From::Cookie(name) => self.jar.value(self.went.place(scenario), name, now_s),
                _ => None,
            };
            let mut eye =
                Eye { answer: *answer, tools: &mut share.tools, scratch: &mut share.scratch };
            let found = capture.take(&mut eye, cookie, &mut self.own.slots[capture.variable]);
            share.judge(step.first_check + step.checks.len() + at, found);
            all &= found;
        }
        all
    }

    /// Notes where a redirect leads, when it is followed.
    fn redirect(&mut self, scenario: &Scenario, step: &Step, answer: &Answer<'_>) -> Redirect {
        let is_redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
        if step.follow == 0 || !is_redirect {
            return Redirect::None;
        }
        let Some(location) = head::values(answer.head, "location").next() else {
            return Redirect::None;
        };
        let went = &mut self.went;
        if went.redirects == step.follow || !went.go(scenario, location) {
            return Redirect::Refused;
        }
        went.redirects += 1;
        // As browsers do it (RFC 9110, 15.4): only 307 and 308 repeat the method.
        went.is_plain |= answer.status < 307;
        Redirect::Followed
    }
}

impl Went {
    pub fn place<'p>(&'p self, scenario: &'p Scenario) -> Place<'p> {
        let origin = &scenario.origins()[self.origin];
        Place { host: origin.host.as_bytes(), target: &self.target, secure: origin.secure }
    }

    /// Resolves a `Location`; false when it leads where the scenario does not go.
    fn go(&mut self, scenario: &Scenario, location: &[u8]) -> bool {
        let secure = scenario.origins()[self.origin].secure;
        let parts = Parts::of_reference(location, secure).ok();
        let origin = match &parts {
            Some(parts) => scenario.origins.find(parts),
            None if !is_relative(location) => None,
            None => Some(self.origin),
        };
        let Some(origin) = origin else { return false };
        std::mem::swap(&mut self.target, &mut self.from);
        self.target.clear();
        match parts {
            Some(parts) => put_target(parts.rest, &mut self.target),
            None => put_relative(&self.from, location, &mut self.target),
        }
        escape_target(&mut self.target);
        self.is_elsewhere |= origin != self.origin;
        self.origin = origin;
        true
    }
}

impl Think {
    pub fn scaled(self, factor: f64) -> Self {
        let scale = |ns: u64| (ns as f64 * factor) as u64;
        match self {
            Self::Fixed(ns) => Self::Fixed(scale(ns)),
            Self::Uniform { least, most } => {
                Self::Uniform { least: scale(least), most: scale(most) }
            }
            Self::Exponential { mean } => Self::Exponential { mean: scale(mean) },
        }
    }

    pub fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(ns) => ns,
            Self::Uniform { least, most } => least + rng.below((most - least) as usize + 1) as u64,
            Self::Exponential { mean } => (-(1.0 - rng.unit()).ln() * mean as f64) as u64,
        }
    }
}

fn judgement(step: usize, share: &Share) -> Judgement {
    let failed = share.verdicts.iter().filter(|verdict| !verdict.passed);
    let first_failed = failed.clone().next().map(|verdict| verdict.check);
    let failed = failed.count() as u32;
    let passed = share.verdicts.len() as u32 - failed;
    Judgement { step, passed, failed, first_failed, ..Judgement::default() }
}

fn is_gzip(head: &[u8]) -> bool {
    head::values(head, "content-encoding").any(|coding| coding.eq_ignore_ascii_case(b"gzip"))
}

/// A path on the server that names it: no scheme, and no host.
pub(crate) fn is_relative(location: &[u8]) -> bool {
    let end = location.iter().position(|byte| matches!(byte, b':' | b'/' | b'?' | b'#'));
    !location.starts_with(b"//") && end.is_none_or(|end| location[end] != b':')
}

#[cfg(test)]
#[path = "user_tests.rs"]
mod tests;
