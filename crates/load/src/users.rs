//! Users of a scenario: what one thread's [`Users`] do next, and what their answers are judged as.
//!
//! A user has one request at a time, or one burst of them ([`Raw`](crate::Raw)). Nobody is asked
//! for the next request inside of an answer: who can go on is noted, and the worker's loop lets
//! them ([`Users::next_turn`]), so that no chain of users and connections can recurse. Which
//! connection a request goes to is `lane/users.rs`'s business; knows no sockets and no clock.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

use drom_scenario::{
    Answer, Counts, Judged, Judgement, Next, Part, Request, Scenario, Share, User, Wants,
};

use crate::{
    exchange::Exchange,
    outcome::ErrorKind,
    plan::{OnClose, Scene},
    scene::{Rounds, SceneTally},
};

/// A round without a request, and a user who could not connect, are no reason to ask again at once.
pub const REST_NS: u64 = 10_000_000;
/// So much of a body is kept to be looked at, and so much memory from one answer to the next.
const BODY_BYTES_MAX: usize = 16 << 20;
const KEPT_BYTES_MAX: usize = 64 << 10;
/// A user who finds nothing to send so often in a row lets others go on.
const VAIN_MAX: u32 = 100;

pub struct Users<'a> {
    pub scene: &'a Scene,
    share: Share,
    places: Vec<Place>,
    /// Who waits until when.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Who can go on, and who begins a round when the window opens.
    ready: Vec<u32>,
    held: Vec<u32>,
    /// Users under way in a round.
    pub inside: u32,
    /// Users who have no more to do: the rows of a feeder are all taken.
    ended: u32,
    /// Number of the next new user, and of how many threads this is one.
    next_number: u64,
    threads: u64,
    tally: SceneTally,
}

/// A user and the request under way.
struct Place {
    user: User,
    request: Request,
    is_head: bool,
    /// The rows of a burst, and how many of its answers are still to come.
    burst: Range<u32>,
    unanswered: u32,
    head: Vec<u8>,
    body: Vec<u8>,
    is_inside: bool,
    /// When the next request was to begin; 0: as soon as it can.
    planned_ns: u64,
    began_ns: u64,
    is_punctual: bool,
    /// Requests and pauses of this round, and the requests alone.
    done: u32,
    asked: u32,
    /// The request has failed and is asked once more.
    is_repeated: bool,
}

/// Whose round it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// The next one of the same user.
    Again,
    /// The first one of somebody else, who comes at a planned time.
    Planned { is_punctual: bool },
}

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its request goes to this server of the scenario.
    Send {
        user: u32,
        origin: usize,
        planned_ns: u64,
        /// It was free when the request was planned.
        is_punctual: bool,
    },
    /// It wants to begin a round.
    Round { user: u32 },
    /// It needs its connections no more.
    Leave { user: u32 },
    /// Nobody has anything to do now.
    Nobody,
}

impl<'a> Users<'a> {
    /// So many users of thread `at` of `threads`.
    pub fn new(
        scene: &'a Scene,
        users: u32,
        (at, threads): (u32, u32),
        unix_s_at_zero: i64,
    ) -> Self {
        let part = Part { number: at, of: threads, seed: scene.seed, unix_s_at_zero };
        let mut share = Share::new(&scene.scenario, part);
        share.takes_ways_in_turn = scene.is_test || scene.raw.is_some();
        let mut made = Self {
            scene,
            places: Vec::new(),
            timers: BinaryHeap::new(),
            ready: (0..users).rev().collect(),
            held: Vec::new(),
            inside: 0,
            ended: 0,
            next_number: u64::from(at),
            threads: u64::from(threads),
            tally: SceneTally::new(&scene.scenario),
            share,
        };
        for _ in 0..users {
            let user = User::new(&scene.scenario, &made.share, made.next_number);
            made.next_number += made.threads;
            made.places.push(Place::new(user));
        }
        made
    }

    /// The window opens: what was counted so far was the warm-up's. Rounds under way belong to it.
    pub fn open_window(&mut self) {
        self.share.counts = Counts::new(self.scenario().checks().len());
        self.tally.clear(u64::from(self.inside));
        self.ready.append(&mut self.held);
    }

    pub fn hold(&mut self, user: u32) {
        self.held.push(user);
    }

    pub fn has_anyone_left(&self) -> bool {
        (self.ended as usize) < self.places.len()
    }

    /// When the first of those who wait goes on; `None` where nobody waits.
    pub fn wake_ns(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(0);
        }
        self.timers.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Who has waited long enough can go on.
    pub fn wake(&mut self, now_ns: u64) {
        while let Some(Reverse((_, user))) = self.timers.peek().filter(|t| t.0.0 <= now_ns) {
            self.ready.push(*user);
            self.timers.pop();
        }
    }

    /// The next user with something to do. `is_cut`: only who has sent nothing yet may.
    pub fn next_turn(&mut self, now_ns: u64, is_cut: bool) -> Turn {
        while let Some(user) = self.ready.pop() {
            let place = &self.places[user as usize];
            if !place.is_inside {
                return Turn::Round { user };
            }
            if is_cut && place.done > 0 {
                continue;
            }
            if let Some(turn) = self.go_on(user, now_ns) {
                return turn;
            }
        }
        Turn::Nobody
    }

    pub fn begin_round(&mut self, user: u32, planned_ns: u64, begins: Begins) {
        let place = &mut self.places[user as usize];
        place.is_punctual = begins == Begins::Planned { is_punctual: true };
        if begins != Begins::Again {
            place.user.renew(&self.share, self.next_number);
            self.next_number += self.threads;
        }
        (place.is_inside, place.planned_ns, place.began_ns) = (true, planned_ns, planned_ns);
        (place.done, place.asked, place.is_repeated) = (0, 0, false);
        self.inside += 1;
        self.tally.rounds.begun += 1;
        self.ready.push(user);
    }

    /// The request that the user has under way, or is about to have.
    pub fn request(&self, user: u32) -> &Request {
        &self.places[user as usize].request
    }

    /// The rows of the burst that it is; a request that the scenario writes is one of its own.
    pub fn burst(&self, user: u32) -> Range<u32> {
        self.places[user as usize].burst.clone()
    }

    pub fn is_head(&self, exchange: &Exchange) -> bool {
        match &self.scene.raw {
            Some(raw) => raw.request(exchange.row).starts_with(b"HEAD "),
            None => self.places[exchange.user as usize].is_head,
        }
    }

    pub fn wants(&self, user: u32) -> Wants {
        self.places[user as usize].request.wants
    }

    pub fn keep_head(&mut self, user: u32, head: &[u8]) {
        let place = &mut self.places[user as usize];
        if place.request.wants.head {
            place.head.clear();
            place.head.extend_from_slice(head);
        }
    }

    pub fn keep_body(&mut self, user: u32, bytes: &[u8]) {
        let place = &mut self.places[user as usize];
        if place.request.wants.body {
            let room = BODY_BYTES_MAX.saturating_sub(place.body.len());
            place.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Judges a whole answer; whether it is a good one.
    pub fn answered(&mut self, exchange: &Exchange, now_ns: u64) -> bool {
        if !self.ends_burst(exchange.user) {
            return self.answered_in_burst(exchange, now_ns);
        }
        let place = &mut self.places[exchange.user as usize];
        let answer = Answer {
            status: exchange.status,
            head: &place.head,
            body: &place.body,
            body_bytes: exchange.body_bytes,
            after_ns: now_ns.saturating_sub(exchange.written_ns),
        };
        let scenario = &*self.scene.scenario;
        let judgement = place.user.answered(scenario, &mut self.share, &answer, now_ns);
        if self.scene.is_test && !judgement.is_redirect {
            let judged = Judged::of(scenario, &self.share, &place.request, &answer);
            self.tally.judged.push(judged);
        }
        self.ended_well(exchange, &judgement, now_ns);
        judgement.failed == 0
    }

    fn ended_well(&mut self, exchange: &Exchange, judgement: &Judgement, now_ns: u64) {
        self.count(judgement.step, exchange, judgement.failed == 0, now_ns);
        self.forget_answer(exchange.user);
        self.ready.push(exchange.user);
    }

    fn count(&mut self, step: usize, exchange: &Exchange, is_good: bool, now_ns: u64) {
        let step = &mut self.tally.steps[step];
        *(if is_good { &mut step.ok } else { &mut step.failed }) += 1;
        step.latency.record_ns(now_ns.saturating_sub(exchange.written_ns));
    }

    /// One answer less is to come; whether it was the last of the user's burst.
    fn ends_burst(&mut self, user: u32) -> bool {
        let unanswered = &mut self.places[user as usize].unanswered;
        *unanswered = unanswered.saturating_sub(1);
        *unanswered == 0
    }

    /// The user waits for others of its burst.
    fn answered_in_burst(&mut self, exchange: &Exchange, now_ns: u64) -> bool {
        let is_good = exchange.status < 400;
        let step = self.places[exchange.user as usize].request.step;
        self.count(step, exchange, is_good, now_ns);
        self.forget_answer(exchange.user);
        is_good
    }

    /// A request behind others of its round is written into a connection that the server has
    /// closed. Not a second time.
    pub fn writes_into_closed(&self, user: u32) -> bool {
        let place = &self.places[user as usize];
        self.scene.on_close != OnClose::Reconnect && place.asked > 1 && !place.is_repeated
    }

    /// There is no answer; whether the request is asked once more. `was_used`: its connection has
    /// had answers.
    pub fn failed(
        &mut self,
        exchange: &Exchange,
        kind: ErrorKind,
        now_ns: u64,
        was_used: bool,
    ) -> bool {
        let user = exchange.user;
        let step = self.places[user as usize].request.step;
        self.tally.steps[step].failed += 1;
        if was_used && self.repeats(exchange, kind) {
            self.places[user as usize].is_repeated = true;
            self.ready.push(user);
            return true;
        }
        if self.ends_burst(user) {
            self.end_by_failure(user, kind, now_ns);
        }
        false
    }

    /// Closed without a byte of an answer, as it is between two requests.
    fn repeats(&self, exchange: &Exchange, kind: ErrorKind) -> bool {
        let place = &self.places[exchange.user as usize];
        let is_closed = matches!(kind, ErrorKind::Closed | ErrorKind::Read | ErrorKind::Write);
        let is_silent = is_closed && exchange.first_byte_ns == 0 && place.burst.len() == 1;
        is_silent && self.scene.on_close == OnClose::Repeat && !place.is_repeated
    }

    /// Where nothing else would come of asking again at once, the user rests.
    fn end_by_failure(&mut self, user: u32, kind: ErrorKind, now_ns: u64) {
        let place = &mut self.places[user as usize];
        if self.scene.is_test {
            let judged =
                Judged::without_answer(&self.scene.scenario, &place.request, kind.in_words());
            self.tally.judged.push(judged);
        }
        place.user.failed(&self.scene.scenario, &mut self.share);
        self.forget_answer(user);
        if matches!(kind, ErrorKind::Connect | ErrorKind::ConnectTimeout | ErrorKind::Tls) {
            self.rest(user, now_ns + REST_NS);
        } else {
            self.ready.push(user);
        }
    }

    /// What the thread has seen.
    pub fn finish(mut self) -> SceneTally {
        self.tally.rounds.under_way = u64::from(self.inside);
        self.tally.checks = self.share.counts;
        self.tally.users_ended = self.ended;
        self.tally
    }

    fn scenario(&self) -> &'a Scenario {
        &self.scene.scenario
    }

    fn rest(&mut self, user: u32, until_ns: u64) {
        self.timers.push(Reverse((until_ns, user)));
    }

    /// And that its request had to be asked again.
    fn forget_answer(&mut self, user: u32) {
        let place = &mut self.places[user as usize];
        place.is_repeated = false;
        place.head.clear();
        place.body.clear();
        place.body.shrink_to(KEPT_BYTES_MAX);
    }

    /// Goes on in its round until there is something to send or to wait for; `None`: it waits, or
    /// its round is over.
    fn go_on(&mut self, user: u32, now_ns: u64) -> Option<Turn> {
        let scenario = self.scenario();
        if self.places[user as usize].is_repeated {
            return Some(self.send_once_more(user, now_ns));
        }
        for _ in 0..VAIN_MAX {
            let place = &mut self.places[user as usize];
            match place.user.next(scenario, &mut self.share, now_ns) {
                Next::Send => return Some(self.send(user, now_ns)),
                Next::Pause { until_ns } if until_ns > now_ns => {
                    (place.planned_ns, place.is_punctual) = (until_ns, false);
                    place.done += 1;
                    self.rest(user, until_ns);
                    return None;
                }
                Next::Pause { .. } => {}
                Next::Unsent { step, why } => {
                    self.tally.steps[step].unsent += 1;
                    if self.scene.is_test {
                        let why = scenario.why(why);
                        self.tally.judged.push(Judged::unsent(scenario, step, why));
                    }
                }
                Next::Done => {
                    self.tell_skipped(user);
                    self.end_round(user, now_ns);
                    return self.leave(user);
                }
                Next::Exhausted { feeder } => {
                    self.end(user, feeder);
                    return self.leave(user);
                }
            }
        }
        self.rest(user, now_ns + REST_NS);
        None
    }

    /// Steps behind the one that ended the round, in a test; that one was judged last.
    fn tell_skipped(&mut self, user: u32) {
        if !self.scene.is_test {
            return;
        }
        let scenario = self.scenario();
        let after = self.tally.judged.last().map_or_else(String::new, |last| last.step.clone());
        let skipped = self.places[user as usize].user.skipped(scenario);
        let told = skipped.map(|step| Judged::skipped(scenario, step, &after));
        self.tally.judged.extend(told);
    }

    fn send(&mut self, user: u32, now_ns: u64) -> Turn {
        let place = &mut self.places[user as usize];
        std::mem::swap(&mut place.request, &mut self.share.request);
        place.is_head = place.request.method() == b"HEAD";
        if let Some(raw) = &self.scene.raw {
            place.burst = raw.burst(place.request.target());
        }
        place.unanswered = place.burst.len() as u32;
        (place.done, place.asked) = (place.done + 1, place.asked + 1);
        let planned_ns = if place.planned_ns == 0 { now_ns } else { place.planned_ns };
        place.planned_ns = 0;
        let (origin, step) = (place.request.origin, place.request.step);
        self.tally.steps[step].sent += u64::from(place.unanswered);
        let is_punctual = std::mem::take(&mut place.is_punctual);
        Turn::Send { user, origin, planned_ns, is_punctual }
    }

    fn send_once_more(&mut self, user: u32, now_ns: u64) -> Turn {
        let place = &mut self.places[user as usize];
        place.unanswered = place.burst.len() as u32;
        let (origin, step) = (place.request.origin, place.request.step);
        self.tally.steps[step].sent += u64::from(place.unanswered);
        Turn::Send { user, origin, planned_ns: now_ns, is_punctual: false }
    }

    fn end_round(&mut self, user: u32, now_ns: u64) {
        let place = &mut self.places[user as usize];
        place.is_inside = false;
        self.inside -= 1;
        self.tally.rounds.done += 1;
        self.tally.rounds.time.record_ns(now_ns.saturating_sub(place.began_ns));
        if place.done == 0 {
            self.rest(user, now_ns + REST_NS);
        } else {
            self.ready.push(user);
        }
    }

    fn leave(&self, user: u32) -> Option<Turn> {
        self.scene.connects_for_rounds.then_some(Turn::Leave { user })
    }

    /// The user has no more to do. A round that has sent nothing was none.
    fn end(&mut self, user: u32, feeder: usize) {
        let place = &mut self.places[user as usize];
        place.is_inside = false;
        self.inside -= 1;
        self.ended += 1;
        self.tally.exhausted.get_or_insert(feeder);
        let Rounds { begun, done, .. } = &mut self.tally.rounds;
        if place.done == 0 { *begun -= 1 } else { *done += 1 }
    }
}

impl Place {
    fn new(user: User) -> Self {
        Self {
            user,
            request: Request::default(),
            is_head: false,
            burst: 0..1,
            unanswered: 0,
            head: Vec::new(),
            body: Vec::new(),
            is_inside: false,
            planned_ns: 0,
            began_ns: 0,
            is_punctual: false,
            done: 0,
            asked: 0,
            is_repeated: false,
        }
    }
}
