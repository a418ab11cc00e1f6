//! One request of a scenario: its keys, and what of them comes from `[defaults]`.

use super::{Compiler, checks::CheckGroup};
use crate::{
    build,
    check::{Capture, Check, From},
    error::Error,
    feeder::Take,
    head,
    json_path::JsonPath,
    origin::Parts,
    request::Wants,
    scenario::{CheckName, FRAMING, Step, StopOn, Target, Think},
    table::{Table, Value},
    template::Template,
};

/// What every step has that does not say otherwise.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    headers: Vec<(String, Template)>,
    checks: Vec<CheckGroup>,
    pub think: Option<Think>,
    follow: u32,
    gzip: bool,
    stop_on: Option<StopOn>,
}

/// Longer chains of redirects than any browser follows.
const FOLLOW_MAX: u64 = 50;

impl<'s> Compiler<'s> {
    pub fn read_defaults(&mut self, value: &Value<'s>) -> Result<Defaults, Error> {
        let mut table = value.table()?;
        let mut defaults = Defaults {
            think: table.read("think", think)?,
            follow: table.read("follow", follow)?.unwrap_or(0),
            gzip: table.read("gzip", Value::flag)?.unwrap_or(false),
            stop_on: table.read("stop_on", stop_on)?,
            ..Defaults::default()
        };
        self.put_headers(&mut table, &mut defaults.headers)?;
        let checks = table.read("check", |value| self.check_groups(value))?;
        defaults.checks = checks.unwrap_or_default();
        table.finish()?;
        Ok(defaults)
    }

    /// The step behind `url`, not yet in the list.
    pub fn step(
        &mut self,
        mut table: Table<'s>,
        url: &Value<'s>,
        defaults: &Defaults,
    ) -> Result<Step, Error> {
        let target = self.target(url)?;
        let mut headers = defaults.headers.clone();
        if table.read("gzip", Value::flag)?.unwrap_or(defaults.gzip) {
            put_header(&mut headers, "Accept-Encoding", Template::fixed("gzip"));
        }
        self.put_headers(&mut table, &mut headers)?;
        let body = self.body(&mut table, &mut headers)?;
        let default_method = if body.is_some() { "POST" } else { "GET" };
        let method = table.take("method");
        let word = method.as_ref().map_or(Ok(default_method.to_owned()), Value::text)?;
        let name = table.read("name", Value::text)?;
        let name = name.unwrap_or_else(|| format!("{word} {}", self.path_of(url)));
        let method = match &method {
            Some(value) => self.method(value, &word)?,
            None => Template::fixed(word),
        };
        let step = Step {
            name,
            method,
            target,
            headers,
            body,
            follow: table.read("follow", follow)?.unwrap_or(defaults.follow),
            stop_on: table.read("stop_on", stop_on)?.or(defaults.stop_on).unwrap_or_default(),
            captures: table.read("capture", |value| self.captures(value))?.unwrap_or_default(),
            ..Step::default()
        };
        let groups = table.read("check", |value| self.check_groups(value))?.unwrap_or_default();
        table.finish()?;
        Ok(self.completed(step, groups, &defaults.checks))
    }

    /// With its checks numbered, and what follows from everything else.
    pub fn completed(
        &mut self,
        mut step: Step,
        own: Vec<CheckGroup>,
        defaults: &[CheckGroup],
    ) -> Step {
        let is_free = |group: &&CheckGroup| own.iter().all(|other| other.key != group.key);
        let mut groups: Vec<CheckGroup> = defaults.iter().filter(is_free).cloned().collect();
        groups.extend(own);
        step.first_check = self.checks.len();
        step.checks = super::checks::with_status(groups);
        let number = self.steps.len();
        let mut add = |name: String| {
            self.checks.push(CheckName { step: number, name });
            self.checks.len() - 1
        };
        for check in &step.checks {
            add(check.name.clone());
        }
        for capture in &step.captures {
            add(format!("capture {}", capture.name));
        }
        step.redirect_check = (step.follow > 0).then(|| add("redirects".to_owned()));
        step.request_check = build::can_break(&step).then(|| add("request".to_owned()));
        let templates: Vec<&Template> = templates(&step).collect();
        let uses_sequence = templates.iter().any(|template| template.uses_sequence());
        let takes = self.feeders.iter().enumerate();
        let takes = takes.filter(|(at, feeder)| {
            feeder.take == Take::Request && templates.iter().any(|t| t.uses_feeder(*at))
        });
        step.takes = takes.map(|(at, _)| at).collect();
        step.uses_sequence = uses_sequence;
        step.wants = wants(&step);
        step.can_be_packed = step.wants.body && asks_for_gzip(&step);
        step.wants.head |= step.can_be_packed;
        step
    }

    fn target(&mut self, value: &Value<'s>) -> Result<Target, Error> {
        let url = self.template(value, &value.text()?)?;
        if !url.all_texts(head::is_target) {
            return Err(value.error("spaces and letters beyond ASCII are to be percent-encoded"));
        }
        if let Some(text) = url.constant().filter(|text| text.contains(&b'#')) {
            let end = memchr::memchr(b'#', text).unwrap_or(text.len());
            return self.known(value, Template::fixed(&text[..end]));
        }
        self.known(value, url)
    }

    fn known(&mut self, value: &Value<'s>, url: Template) -> Result<Target, Error> {
        let begin = url.begin().to_owned();
        if begin.starts_with(b"/") && !begin.starts_with(b"//") {
            let Some(origin) = self.base else {
                return Err(
                    value.error("a path needs base = \"http://HOST\" at the top of the file")
                );
            };
            return Ok(Target::Known { origin, path: url });
        }
        if begin.is_empty() && url.constant().is_none() {
            return Ok(Target::Open(url));
        }
        let parts = Parts::of(&begin)
            .map_err(|reason| value.error(format!("{reason}, or with / for a path on `base`")))?;
        if parts.rest.is_empty() && url.constant().is_none() {
            return Ok(Target::Open(url));
        }
        let origin = self.origins.add(&parts);
        let mut path = Template::default();
        let behind = url.behind(begin.len() - parts.rest.len());
        if !behind.begin().starts_with(b"/") {
            path.add_text(b"/");
        }
        path.append(behind);
        Ok(Target::Known { origin, path })
    }

    /// For the name of a step that has none.
    fn path_of(&self, url: &Value<'s>) -> String {
        let url = url.text().unwrap_or_default();
        match Parts::of(url.as_bytes()) {
            Ok(parts) if parts.rest.is_empty() => "/".to_owned(),
            Ok(parts) => String::from_utf8_lossy(parts.rest).into_owned(),
            Err(_) => url,
        }
    }

    fn method(&self, value: &Value<'s>, word: &str) -> Result<Template, Error> {
        let method = self.template(value, word)?;
        match method.constant() {
            Some(text) if !head::is_token(text) => Err(value.error("this is no method")),
            _ => Ok(method),
        }
    }

    /// `headers`, `basic` and `bearer`: each replaces one of the same name.
    fn put_headers(
        &self,
        table: &mut Table<'s>,
        headers: &mut Vec<(String, Template)>,
    ) -> Result<(), Error> {
        if let Some(value) = table.take("headers") {
            for value in value.table()?.entries() {
                self.check_header(&value)?;
                let text = self.template(&value, &value.text()?)?;
                if !text.all_texts(head::is_value) {
                    return Err(value.error("a line end or control character breaks the header"));
                }
                // One of constants only is known to come out empty.
                match text.constant() == Some(b"") && !value.text()?.is_empty() {
                    true => headers.retain(|(name, _)| !name.eq_ignore_ascii_case(&value.key)),
                    false => put_header(headers, &value.key, text),
                }
            }
        }
        if let Some(value) = table.take("basic") {
            let mut pair = value.table()?;
            let mut inner = self.needed(&mut pair, "user")?;
            inner.add_text(b":");
            inner.append(self.needed(&mut pair, "password")?);
            pair.finish()?;
            let mut basic = Template::fixed("Basic ");
            basic.add_base64(inner);
            put_header(headers, "Authorization", basic);
        }
        if let Some(value) = table.take("bearer") {
            let mut bearer = Template::fixed("Bearer ");
            bearer.append(self.template(&value, &value.text()?)?);
            put_header(headers, "Authorization", bearer);
        }
        Ok(())
    }

    fn needed(&self, table: &mut Table<'s>, key: &'static str) -> Result<Template, Error> {
        let value = table.need(key)?;
        self.template(&value, &value.text()?)
    }

    fn check_header(&self, value: &Value<'s>) -> Result<(), Error> {
        if !head::is_token(value.key.as_bytes()) {
            return Err(value.error("this is no name of a header"));
        }
        match FRAMING.iter().any(|name| value.key.eq_ignore_ascii_case(name)) {
            true => Err(value.error("this header is set by the sender; leave it out")),
            false => Ok(()),
        }
    }

    fn captures(&mut self, value: &Value<'s>) -> Result<Vec<Capture>, Error> {
        value.table()?.entries().iter().map(|value| self.capture(value)).collect()
    }

    fn capture(&mut self, value: &Value<'s>) -> Result<Capture, Error> {
        let mut table = value.table()?;
        let group = table.take("group");
        let sources = ["header", "regex", "json", "cookie"].map(|key| table.take(key));
        let default = table.read("default", Value::text)?.map(String::into_bytes);
        let mut given = sources.iter().flatten();
        let (Some(from), None) = (given.next(), given.next()) else {
            return Err(value.error("one of `header`, `regex`, `json` and `cookie` is wanted"));
        };
        table.finish()?;
        let text = from.text()?;
        let from = match &*from.key {
            "header" => From::Header(text),
            "cookie" => From::Cookie(text.into_bytes()),
            "json" => From::Json(JsonPath::parse(&text).map_err(|reason| from.error(reason))?),
            _ => {
                let regex = self.regex(from, &text, false)?;
                let groups = self.regexes[regex].captures_len() as u64 - 1;
                let group = match &group {
                    Some(group) => group.whole(0, groups)?,
                    None => groups.min(1),
                };
                From::Regex { regex, group: group as usize }
            }
        };
        let variable = self.names.variable(&value.key);
        Ok(Capture { name: value.key.clone(), variable, from, default })
    }
}

pub fn put_header(headers: &mut Vec<(String, Template)>, name: &str, value: Template) {
    headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    headers.push((name.to_owned(), value));
}

pub fn think(value: &Value<'_>) -> Result<Think, Error> {
    if !value.is_table() {
        return Ok(Think::Fixed(value.time()?));
    }
    let mut table = value.table()?;
    let think = if let Some(mean) = table.take("mean") {
        Think::Exponential { mean: mean.time()? }
    } else {
        let (least, most) = (table.need("from")?.time()?, table.need("to")?.time()?);
        if least > most {
            return Err(value.error("`from` is longer than `to`"));
        }
        Think::Uniform { least, most }
    };
    table.finish()?;
    Ok(think)
}

fn follow(value: &Value<'_>) -> Result<u32, Error> {
    Ok(value.whole(0, FOLLOW_MAX)? as u32)
}

fn stop_on(value: &Value<'_>) -> Result<StopOn, Error> {
    match &*value.text()? {
        "capture" => Ok(StopOn::Capture),
        "check" => Ok(StopOn::Check),
        "never" => Ok(StopOn::Never),
        _ => Err(value.error("\"capture\", \"check\" or \"never\" is wanted")),
    }
}

/// All that is written for a step; what its checks compare with is written after the request.
fn templates(step: &Step) -> impl Iterator<Item = &Template> {
    let target = match &step.target {
        Target::Known { path, .. } => path,
        Target::Open(url) => url,
    };
    let headers = step.headers.iter().map(|(_, value)| value);
    let checks = step.checks.iter().filter_map(Check::template);
    [&step.method, target].into_iter().chain(headers).chain(&step.body).chain(checks)
}

fn asks_for_gzip(step: &Step) -> bool {
    let accepts = step.headers.iter().filter(|h| h.0.eq_ignore_ascii_case("accept-encoding"));
    let mut values = accepts.filter_map(|(_, value)| value.constant());
    values.any(|value| memchr::memmem::find(value, b"gzip").is_some())
}

fn wants(step: &Step) -> Wants {
    Wants {
        head: step.follow > 0
            || step.checks.iter().any(Check::wants_head)
            || step.captures.iter().any(Capture::wants_head),
        body: step.checks.iter().any(Check::wants_body)
            || step.captures.iter().any(Capture::wants_body),
    }
}
