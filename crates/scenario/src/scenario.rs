//! What users do, as data: the [`Scenario`], compiled from TOML ([`crate::read`]), a list of URLs
//! or a log. It never changes while it runs, so threads share it without a lock.

use regex::bytes::Regex;

use crate::{
    check::{Answer, Capture, Check},
    feeder::Feeder,
    gzip::Unpacker,
    head::{self, is_token, is_value},
    origin::{Origin, Origins, Parts},
    request::Wants,
    template::{Names, Template},
    user::{Unsent, is_relative},
};

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    /// Each round asks what the next line of a file says.
    pub is_list: bool,
    pub(crate) flows: Vec<Flow>,
    /// Running sums of the flows' weights.
    pub(crate) weights: Vec<u64>,
    pub(crate) steps: Vec<Step>,
    pub(crate) checks: Vec<CheckName>,
    pub(crate) feeders: Vec<Feeder>,
    pub(crate) names: Names,
    /// What variables are when a session begins.
    pub(crate) variables: Vec<(usize, Template)>,
    pub(crate) origins: Origins,
    pub(crate) base: Option<usize>,
    pub(crate) has_cookies: bool,
    pub(crate) session: Session,
    pub(crate) regexes: Vec<Regex>,
}

/// One of the ways through a scenario, a small program.
#[derive(Clone, Debug)]
pub struct Flow {
    pub name: String,
    pub(crate) ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Send(usize),
    Pause(Think),
    /// Goes on behind the loop when it is to be run no time at all.
    Begin {
        least: u32,
        most: u32,
        behind: usize,
    },
    End {
        begin: usize,
    },
    Maybe {
        chance: f64,
        behind: usize,
    },
}

/// How long a user waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Think {
    Fixed(u64),
    Uniform { least: u64, most: u64 },
    Exponential { mean: u64 },
}

/// How long cookies and captured values live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    Iteration,
    User,
}

/// What ends an iteration early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StopOn {
    /// No answer, a request that cannot be sent, a capture that found nothing.
    #[default]
    Capture,
    /// That, and a check that failed.
    Check,
    Never,
}

#[derive(Clone, Debug, Default)]
pub struct Step {
    pub name: String,
    pub(crate) method: Template,
    pub(crate) target: Target,
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) body: Option<Template>,
    pub(crate) follow: u32,
    pub(crate) stop_on: StopOn,
    pub(crate) checks: Vec<Check>,
    pub(crate) captures: Vec<Capture>,
    /// The number of its first check in [`Scenario::checks`]; captures come behind the checks.
    pub(crate) first_check: usize,
    pub(crate) redirect_check: Option<usize>,
    pub(crate) request_check: Option<usize>,
    pub(crate) uses_sequence: bool,
    /// Feeders of which every request takes a row.
    pub(crate) takes: Vec<usize>,
    pub(crate) wants: Wants,
    /// It asks for gzip, and something looks at the body.
    pub(crate) can_be_packed: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The origin is known, the path may hold values.
    Known { origin: usize, path: Template },
    /// Only the value says where it goes.
    Open(Template),
}

impl Default for Target {
    fn default() -> Self {
        Self::Open(Template::default())
    }
}

/// A check as reports name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckName {
    pub step: usize,
    pub name: String,
}

impl Scenario {
    /// Every server that it can ask. A request names one by its place here.
    #[must_use]
    pub fn origins(&self) -> &[Origin] {
        self.origins.list()
    }

    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Every check of every step; [`Counts`](crate::Counts) has a place for each.
    #[must_use]
    pub fn checks(&self) -> &[CheckName] {
        &self.checks
    }

    #[must_use]
    pub fn feeders(&self) -> &[Feeder] {
        &self.feeders
    }

    /// Sends these with every step that does not have them itself.
    ///
    /// # Errors
    /// Which of them would break the framing.
    pub fn add_headers(&mut self, headers: &[(String, String)]) -> Result<(), String> {
        for (name, value) in headers {
            check_header(name, value)?;
            let asks_for_gzip = name.eq_ignore_ascii_case("accept-encoding");
            for step in &mut self.steps {
                if step.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                    continue;
                }
                step.headers.push((name.clone(), Template::fixed(value.as_bytes())));
                step.can_be_packed |= asks_for_gzip && value.contains("gzip") && step.wants.body;
                step.wants.head |= step.can_be_packed;
            }
        }
        Ok(())
    }

    /// Makes every pause so many times as long: 0 for none, 0.5 for a recording at double speed.
    pub fn scale_think(&mut self, factor: f64) {
        for op in self.flows.iter_mut().flat_map(|flow| &mut flow.ops) {
            if let Op::Pause(think) = op {
                *think = think.scaled(factor);
            }
        }
    }

    /// What an answer was that failed this check, for a person.
    #[must_use]
    pub fn found(&self, check: usize, answer: &Answer<'_>) -> String {
        let step = &self.steps[self.checks[check].step];
        let mut plain = Vec::new();
        let is_packed = step.can_be_packed && Unpacker::default().unpack(answer.body, &mut plain);
        let body = if is_packed { &plain } else { answer.body };
        if let Some(check) = step.checks.get(check - step.first_check) {
            return check.found(&Answer { body, ..*answer });
        }
        if Some(check) == step.redirect_check {
            return self.why_not_followed(step.follow, answer.head);
        }
        format!("nothing was found; the body has {} bytes", answer.body_bytes)
    }

    pub(crate) fn why_not_followed(&self, most: u32, head: &[u8]) -> String {
        let location = head::values(head, "location").next().unwrap_or_default();
        let is_known = |secure| {
            let parts = Parts::of_reference(location, secure);
            parts.is_ok_and(|parts| self.origins.find(&parts).is_some())
        };
        if is_relative(location) || is_known(false) || is_known(true) {
            return format!("there are more than {most} redirects");
        }
        let place = String::from_utf8_lossy(location);
        match Parts::of_reference(location, false) {
            Ok(_) => format!("{place} is a server that nobody named; add it to `origins`"),
            Err(why) => format!("{place} is not followed: {why}"),
        }
    }

    /// Why a request could not be sent, for a person.
    #[must_use]
    pub fn why(&self, unsent: Unsent) -> String {
        match unsent {
            Unsent::Unset { variable } => {
                let name = &self.names.variables[variable];
                format!("`{name}` has no value: its capture found nothing, or comes later")
            }
            Unsent::Method => "a value makes no method of it".to_owned(),
            Unsent::Target => "a value that no URL can hold; write {{name|url}}".to_owned(),
            Unsent::Field => "a value with a line end would break the header".to_owned(),
            Unsent::Elsewhere => {
                "the URL leads to a server that nobody named; add it to `origins`".to_owned()
            }
        }
    }
}

/// Fields that the sender decides, or that would change where a request ends.
pub(crate) const FRAMING: [&str; 5] =
    ["content-length", "transfer-encoding", "connection", "expect", "upgrade"];

fn check_header(name: &str, value: &str) -> Result<(), String> {
    if !is_token(name.as_bytes()) {
        return Err(format!("{name:?} is no name of a header"));
    }
    if FRAMING.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(format!("the header {name} is the sender's business"));
    }
    match is_value(value.as_bytes()) {
        true => Ok(()),
        false => Err(format!("the value of the header {name} has a control character")),
    }
}

impl Step {
    #[must_use]
    pub fn wants(&self) -> Wants {
        self.wants
    }
}
