//! From a step and what a user has to a request: the user's own values, and the writing.

use drom_stats::Rng;

use crate::{
    cookies::Jar,
    head,
    origin::{Parts, put_target},
    request::Request,
    scenario::{Scenario, Step, Target},
    share::Share,
    template::{Slot, Template, Unset, Values},
    user::{Unsent, Went},
};

/// What is a user's own, as far as templates see it.
#[derive(Debug)]
pub struct Own {
    pub number: u64,
    /// From 1; 0 before the first.
    pub iteration: u64,
    pub sequence: u64,
    pub slots: Vec<Slot>,
    /// By feeder.
    pub rows: Vec<usize>,
    pub rng: Rng,
}

impl Own {
    pub fn new(scenario: &Scenario, seed: u64, number: u64) -> Self {
        Self {
            number,
            iteration: 0,
            sequence: 0,
            slots: vec![Slot::default(); scenario.names.variables.len()],
            rows: vec![0; scenario.feeders.len()],
            rng: rng(seed, number),
        }
    }

    pub fn renew(&mut self, seed: u64, number: u64) {
        (self.number, self.iteration, self.rng) = (number, 0, rng(seed, number));
    }

    pub fn values<'v>(&'v mut self, scenario: &'v Scenario) -> Values<'v> {
        Values {
            variables: &self.slots,
            feeders: &scenario.feeders,
            rows: &self.rows,
            sequence: self.sequence,
            user: self.number,
            iteration: self.iteration,
            rng: &mut self.rng,
        }
    }

    /// What variables are when a session begins; captured ones are nothing.
    pub fn set_variables(&mut self, scenario: &Scenario, share: &mut Share) {
        self.slots.iter_mut().for_each(|slot| slot.is_set = false);
        for (at, template) in &scenario.variables {
            if template.uses_sequence() {
                self.sequence = share.next_in_sequence();
            }
            let mut text = std::mem::take(&mut self.slots[*at].text);
            text.clear();
            let is_set = template.write(&mut self.values(scenario), &mut text).is_ok();
            self.slots[*at] = Slot { text, is_set };
        }
    }

    /// Fills the share's request, which is empty.
    pub fn build(
        &mut self,
        scenario: &Scenario,
        share: &mut Share,
        step: &Step,
        went: &mut Went,
        (jar, now_s): (&Jar, i64),
    ) -> Result<(), Unsent> {
        let (request, scratch) = (&mut share.request, &mut share.scratch);
        let mut values = self.values(scenario);
        if went.is_plain {
            request.set_method(|out| out.extend_from_slice(b"GET"));
        } else {
            request.set_method(|out| step.method.write(&mut values, out))?;
        }
        if !head::is_token(request.method()) {
            return Err(Unsent::Method);
        }
        if went.redirects == 0 {
            went.target.clear();
            went.origin = aim(scenario, step, &mut values, scratch, &mut went.target)?;
        }
        (request.origin, request.redirects) = (went.origin, went.redirects);
        request.set_target(|out| out.extend_from_slice(&went.target));
        let origin = &scenario.origins()[went.origin];
        request.set_authority(|out| out.extend_from_slice(origin.authority.as_bytes()));
        let cookies = Cookies { jar, went, now_s, scenario };
        put_fields(step, &cookies, &mut values, request)?;
        match &step.body {
            Some(body) if !went.is_plain => {
                request.set_body(|out| body.write(&mut values, out))?;
            }
            _ => request.needs_length(),
        }
        Ok(())
    }
}

/// An odd factor keeps neighbours apart; the generator mixes its seed itself.
fn rng(seed: u64, number: u64) -> Rng {
    Rng::new(seed ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl std::convert::From<Unset> for Unsent {
    fn from(Unset(variable): Unset) -> Self {
        Self::Unset { variable }
    }
}

/// Writes the target of a request; the origin that it goes to.
fn aim(
    scenario: &Scenario,
    step: &Step,
    values: &mut Values<'_>,
    scratch: &mut Vec<u8>,
    target: &mut Vec<u8>,
) -> Result<usize, Unsent> {
    let origin = match &step.target {
        Target::Known { origin, path } => {
            path.write(values, target)?;
            *origin
        }
        Target::Open(url) => {
            scratch.clear();
            url.write(values, scratch)?;
            open(scenario, scratch, target)?
        }
    };
    target.truncate(memchr::memchr(b'#', target).unwrap_or(target.len()));
    if head::is_target(target) { Ok(origin) } else { Err(Unsent::Target) }
}

/// A URL that only a value knows: a path on the base, or one of the scenario's servers.
fn open(scenario: &Scenario, url: &[u8], target: &mut Vec<u8>) -> Result<usize, Unsent> {
    if url.starts_with(b"/") && !url.starts_with(b"//") {
        target.extend_from_slice(url);
        return scenario.base.ok_or(Unsent::Elsewhere);
    }
    let is_base_secure = scenario.base.is_some_and(|base| scenario.origins()[base].secure);
    let parts = Parts::of_reference(url, is_base_secure).map_err(|_| Unsent::Target)?;
    put_target(parts.rest, target);
    scenario.origins.find(&parts).ok_or(Unsent::Elsewhere)
}

/// What the jar adds to a request.
struct Cookies<'c> {
    jar: &'c Jar,
    went: &'c Went,
    now_s: i64,
    scenario: &'c Scenario,
}

impl Cookies<'_> {
    fn any(&self) -> bool {
        !self.jar.is_empty() && self.jar.any_for(self.went.place(self.scenario), self.now_s)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.jar.write(self.went.place(self.scenario), self.now_s, out);
    }
}

fn put_fields(
    step: &Step,
    cookies: &Cookies<'_>,
    values: &mut Values<'_>,
    request: &mut Request,
) -> Result<(), Unsent> {
    let mut has_cookies = !cookies.any();
    for (name, value) in &step.headers {
        if is_left_out(name, cookies.went) {
            continue;
        }
        if name.eq_ignore_ascii_case("host") {
            request.set_authority(|out| value.write(values, out))?;
            if !head::is_value(request.authority()) {
                return Err(Unsent::Field);
            }
            continue;
        }
        let takes_jar = !has_cookies && name.eq_ignore_ascii_case("cookie");
        has_cookies |= takes_jar;
        let written = request.add_field(name, |out| {
            value.write(values, out)?;
            if takes_jar {
                out.extend_from_slice(b"; ");
                cookies.write(out);
            }
            Ok::<(), Unset>(())
        })?;
        if !head::is_value(written) {
            return Err(Unsent::Field);
        }
        if written.is_empty() && value.constant().is_none() {
            request.drop_field();
        }
    }
    if !has_cookies {
        request.add_field("Cookie", |out| {
            cookies.write(out);
            Ok::<(), Unset>(())
        })?;
    }
    Ok(())
}

/// What was for the first server, or belongs to a body that is gone.
fn is_left_out(name: &str, went: &Went) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    (went.is_elsewhere && (is("authorization") || is("cookie") || is("host")))
        || (went.is_plain && is("content-type"))
}

/// Whether a step's request can turn out to be one that cannot be sent.
pub fn can_break(step: &Step) -> bool {
    let is_open = |template: &Template| template.constant().is_none();
    let target = match &step.target {
        Target::Known { path, .. } => is_open(path),
        Target::Open(_) => true,
    };
    target
        || is_open(&step.method)
        || step.headers.iter().any(|(_, value)| is_open(value))
        || step.body.as_ref().is_some_and(is_open)
}
