//! Learning what every variant answers: twice in the preflight, over a second apart, once at every
//! start, and again when a slice met another body.

use std::time::Duration;

use drom_load::ErrorKind;
use drom_store::Slice;

use super::{Experiment, Running};
use crate::{
    Error,
    answers::{Known, beginning, told},
    plan::{Contestant, Group, Mode},
    world::{Reply, ServerId},
};

/// A clock in a page shows a second at least.
const APART_S: f64 = 1.1;
/// More answers of a page that varies, to see whether its length does: so many, within so long.
const SAMPLES: usize = 20;
const SAMPLES_S: f64 = 0.3;
/// Answers of a fresh server that tell a wrong body from one that varies.
const FRESH_ANSWERS: usize = 3;

/// The A/A pair answers as its baseline does.
pub fn key(group: &Group, who: &Contestant) -> (String, String) {
    let name = if who.is_control { &group.baseline } else { &who.name };
    (group.name.clone(), name.clone())
}

/// A variant that has answered once, and when.
struct Asked<'g> {
    who: &'g Contestant,
    /// None where servers live one by one and this one is gone.
    server: Option<ServerId>,
    first: Reply,
    at_s: f64,
}

impl Experiment<'_> {
    /// Each variant answers twice; the client's ceiling is measured between the two.
    pub(super) fn learn_answers(&mut self, group: &Group) -> Result<(), Error> {
        self.news(format!("{}: asking every variant for its answer", group.name));
        let mut asked = Vec::new();
        let learned = self.ask_all(group, &mut asked);
        asked.iter().filter_map(|a| a.server).for_each(|server| self.world.ask_to_stop(server));
        asked.iter().filter_map(|a| a.server).for_each(|server| self.world.stop(server));
        learned
    }

    fn ask_all<'g>(&mut self, group: &'g Group, asked: &mut Vec<Asked<'g>>) -> Result<(), Error> {
        for who in group.contestants.iter().filter(|c| !c.is_control) {
            if self.stopped() {
                return Ok(());
            }
            let server = self.start(who)?;
            let first = self.ask(server, who);
            let server = if self.plan.mode == Mode::Fresh || first.is_err() {
                self.world.stop(server);
                None
            } else {
                Some(server)
            };
            asked.push(Asked { who, server, first: first?, at_s: self.world.now_s() });
        }
        let bytes = asked.iter().map(|asked| asked.first.body.len() as u64).max().unwrap_or(0);
        self.measure_ceiling(group.connections, bytes)?;
        for asked in asked.iter() {
            let known = self.ask_again(asked)?;
            self.answers.insert(key(group, asked.who), known);
        }
        self.same_answers(group)
    }

    fn ask(&mut self, server: ServerId, who: &Contestant) -> Result<Reply, Error> {
        let wrong = |reason: String| Error::Answer {
            variant: who.name.clone(),
            path: who.request.path.clone(),
            reason,
        };
        let reply = self.world.answer(server, &who.request).map_err(wrong)?;
        if !(200..400).contains(&reply.status) {
            return Err(wrong(format!("status {}: {}", reply.status, beginning(&reply.body))));
        }
        Ok(reply)
    }

    /// The same server again, or another one where they live one by one.
    fn ask_again(&mut self, asked: &Asked<'_>) -> Result<Known, Error> {
        let mut known = Known::of(asked.first.clone());
        if self.stopped() {
            return Ok(known);
        }
        let fresh = if asked.server.is_none() { Some(self.start(asked.who)?) } else { None };
        let wait_s = asked.at_s + APART_S - self.world.now_s();
        if wait_s > 0.0 {
            self.world.sleep(Duration::from_secs_f64(wait_s));
        }
        let server = asked.server.or(fresh).expect("one of the two");
        let second = self.ask(server, asked.who).map(|second| known.see(&second));
        self.sample_lengths(server, asked.who, &mut known);
        if let Some(fresh) = fresh {
            self.world.stop(fresh);
        }
        second.map(|_| known)
    }

    /// Whether the length of what varies is always the same; what cannot be asked tells nothing.
    fn sample_lengths(&mut self, server: ServerId, who: &Contestant, known: &mut Known) -> bool {
        let until_s = self.world.now_s() + SAMPLES_S;
        let mut less = false;
        for _ in 0..SAMPLES {
            if !known.has_a_length() || self.world.now_s() > until_s || self.stopped() {
                break;
            }
            let Ok(reply) = self.ask(server, who) else { break };
            less |= known.see(&reply);
        }
        less
    }

    /// All variants whose answers are always the same must answer the same.
    fn same_answers(&self, group: &Group) -> Result<(), Error> {
        let own = group.contestants.iter().filter(|who| !who.is_control);
        let mut known = own.filter_map(|who| Some((who, self.answers.get(&key(group, who))?)));
        let constant = known.by_ref().filter(|(_, known)| group.same_answer && known.is_constant());
        let constant: Vec<_> = constant.collect();
        let Some((other, expected)) = constant.first() else { return Ok(()) };
        let Some((who, got)) = constant.iter().find(|(_, got)| !got.is_like(expected.reply()))
        else {
            return Ok(());
        };
        Err(Error::DifferentAnswers {
            group: group.name.clone(),
            variant: who.name.clone(),
            other: other.name.clone(),
            got: told(got.reply()),
            expected: told(expected.reply()),
        })
    }

    /// One question at every start, before the first load. What is wrong with the answer will show
    /// under load.
    pub(super) fn look_at_answer(
        &mut self,
        group: &Group,
        running: &mut [Running],
        who: &Contestant,
    ) {
        let Some(on) = running.iter_mut().find(|on| on.key == who.server) else { return };
        if self.stopped() {
            return;
        }
        let Ok(mut reply) = self.ask(on.server, who) else { return };
        let Some(known) = self.answers.get(&key(group, who)) else { return };
        if known.is_constant() && !known.is_like(&reply) {
            // One wrong answer is no other page.
            let Ok(again) = self.ask(on.server, who) else { return };
            reply = again;
        }
        if let Some(known) = self.answers.get_mut(&key(group, who)) {
            known.see(&reply);
        }
        on.replies.insert(who.name.clone(), reply);
    }

    /// Bodies other than expected are wrong only where a body, or its length, is always the same:
    /// whether it turns out not to be.
    pub(super) fn was_mistaken(
        &mut self,
        group: &Group,
        who: &Contestant,
        on: &Running,
        slice: &Slice,
    ) -> bool {
        let bad = slice.errors.contains_key(ErrorKind::BadBody.name());
        let Some(mut known) = self.answers.get(&key(group, who)).cloned() else { return false };
        if !bad || self.stopped() {
            return false;
        }
        let less = if known.is_constant() {
            self.ask_a_fresh_one(who, &mut known)
        } else {
            self.sample_lengths(on.server, who, &mut known)
        };
        self.answers.insert(key(group, who), known);
        less
    }

    /// The server under load may have gone wrong; one that just started has not.
    fn ask_a_fresh_one(&mut self, who: &Contestant, known: &mut Known) -> bool {
        let Ok(server) = self.start(who) else { return false };
        let mut less = false;
        for _ in 0..FRESH_ANSWERS {
            let Ok(reply) = self.ask(server, who) else { break };
            less |= known.see(&reply);
        }
        self.world.stop(server);
        less
    }
}
