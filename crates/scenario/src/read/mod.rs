//! From TOML to a [`Scenario`]: what the keys are is in docs/scenario.md. Every mistake is an error
//! with file and line, whatever the file holds.

mod body;
mod checks;
mod feeders;
mod flow;
mod step;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use regex::bytes::{Regex, RegexBuilder};

use crate::{
    error::Error,
    feeder::{Feeder, Take},
    origin::{Origins, Parts},
    scenario::{CheckName, Flow, Op, Scenario, Session, Step, Target},
    table::{Plain, Source, Table, Value},
    template::{Names, Template},
};

/// Reads a file that a scenario names.
pub type ReadFile<'r> = &'r dyn Fn(&Path) -> io::Result<Vec<u8>>;

impl Scenario {
    /// Reads a file. `set` are variables of the command line, before those of the file.
    ///
    /// # Errors
    /// What cannot be read, or where the mistake is.
    pub fn read(path: &Path, set: &[(String, String)]) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|source| Error::Read { path: path.into(), source })?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = 1 + memchr::memchr_iter(b'\n', &bytes[..error.valid_up_to()]).count();
            Error::at(path, line, "this is no UTF-8 text")
        })?;
        Self::parse(text, path, set, &|file| fs::read(file))
    }

    /// The same for a text. Files that it names are asked for by their path beside `path`.
    ///
    /// # Errors
    /// Where the mistake is.
    pub fn parse(
        text: &str,
        path: &Path,
        set: &[(String, String)],
        read_file: ReadFile<'_>,
    ) -> Result<Self, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            let message = "the file is empty; a scenario begins with [[step]] and url = \"...\"";
            return Err(Error::of_file(path, message));
        }
        let source = Source { path, text };
        let mut compiler = Compiler { read_file, ..Compiler::new(source) };
        compiler.set(set);
        compiler.scenario(source.table()?)
    }
}

/// What is compiled so far.
pub(crate) struct Compiler<'s> {
    source: Source<'s>,
    read_file: ReadFile<'s>,
    names: Names,
    /// Variables that have a value from outside, and are not in the file's table of them.
    set: Vec<String>,
    feeders: Vec<Feeder>,
    variables: Vec<(usize, Template)>,
    origins: Origins,
    base: Option<usize>,
    steps: Vec<Step>,
    checks: Vec<CheckName>,
    regexes: Vec<Regex>,
}

/// Names with a meaning of their own in templates.
const RESERVED: [&str; 5] = ["seq", "user", "iteration", "uuid", "random"];

impl<'s> Compiler<'s> {
    pub fn new(source: Source<'s>) -> Self {
        Self {
            source,
            read_file: &|_| Err(io::ErrorKind::Unsupported.into()),
            names: Names::default(),
            set: Vec::new(),
            feeders: Vec::new(),
            variables: Vec::new(),
            origins: Origins::default(),
            base: None,
            steps: Vec::new(),
            checks: Vec::new(),
            regexes: Vec::new(),
        }
    }

    /// For scenarios that are not made of TOML.
    pub fn set_places(&mut self, origins: Origins, base: Option<usize>) {
        (self.origins, self.base) = (origins, base);
    }

    /// A scenario of one step, again and again with the next row, without cookies.
    pub fn single(
        mut self,
        feeder: Feeder,
        method: Template,
        target: Target,
        headers: Vec<(String, Template)>,
    ) -> Scenario {
        let name = feeder.name.clone();
        self.feeders.push(feeder);
        let step = Step { name, method, target, headers, ..Step::default() };
        let step = self.completed(step, Vec::new(), &[]);
        self.steps.push(step);
        let flow = Flow { name: String::new(), ops: vec![Op::Send(0)] };
        let name = self.file_name();
        let made = self.finish(name, vec![flow], vec![1], false, Session::Iteration);
        Scenario { is_list: true, ..made }
    }

    fn set(&mut self, set: &[(String, String)]) {
        for (name, value) in set {
            self.names.constants.push((name.clone(), value.clone()));
            self.set.push(name.clone());
        }
    }

    fn scenario(mut self, mut root: Table<'s>) -> Result<Scenario, Error> {
        let name = root.read("name", Value::text)?.unwrap_or_else(|| self.file_name());
        let flows = (root.take("step"), root.take("scenario"));
        for list in [&flows.0, &flows.1].into_iter().flatten() {
            self.find_captures(list)?;
        }
        root.read("feeder", |value| self.read_feeders(value))?;
        root.read("variables", |value| self.read_variables(value))?;
        self.check_set()?;
        root.read("base", |value| self.read_base(value))?;
        root.read("origins", |value| self.read_origins(value))?;
        let has_cookies = root.read("cookies", Value::flag)?.unwrap_or(true);
        let session = root.read("session", session)?.unwrap_or(Session::Iteration);
        let defaults = root.read("defaults", |value| self.read_defaults(value))?;
        root.finish()?;
        let (flows, weights) = self.read_flows(flows, &defaults.unwrap_or_default())?;
        Ok(self.finish(name, flows, weights, has_cookies, session))
    }

    fn finish(
        self,
        name: String,
        flows: Vec<Flow>,
        weights: Vec<u64>,
        has_cookies: bool,
        session: Session,
    ) -> Scenario {
        let mut steps = self.steps;
        steps.iter_mut().for_each(|step| step.wants.head |= has_cookies);
        Scenario {
            name,
            is_list: false,
            flows,
            weights,
            steps,
            checks: self.checks,
            feeders: self.feeders,
            names: self.names,
            variables: self.variables,
            origins: self.origins,
            base: self.base,
            has_cookies,
            session,
            regexes: self.regexes,
        }
    }

    fn file_name(&self) -> String {
        let stem = self.source.path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// Variables are known before any template is compiled, wherever their capture stands.
    fn find_captures(&mut self, list: &Value<'s>) -> Result<(), Error> {
        for item in list.items().iter().filter(|item| item.is_table()) {
            for value in item.table()?.entries() {
                match &*value.key {
                    "step" => self.find_captures(&value)?,
                    "capture" => {
                        for capture in value.table()?.entries() {
                            self.check_name(&capture)?;
                            self.names.variable(&capture.key);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn read_variables(&mut self, value: &Value<'s>) -> Result<(), Error> {
        for value in value.table()?.entries() {
            self.check_name(&value)?;
            let unknown = self.set.len();
            self.set.retain(|name| *name != value.key);
            if self.set.len() < unknown {
                continue;
            }
            let text = match value.plain()? {
                Plain::Text(text) => text,
                Plain::Whole(number) => number.to_string(),
                Plain::Number(number) => number.to_string(),
                Plain::Flag(flag) => flag.to_string(),
            };
            let template = self.template(&value, &text)?;
            let mut feeders = self.feeders.iter().enumerate();
            if feeders.any(|(at, f)| f.take == Take::Request && template.uses_feeder(at)) {
                return Err(value.error("a feeder with take = \"request\" has no row yet here"));
            }
            let is_captured = self.names.variables.contains(&value.key);
            match template.constant() {
                Some(text) if !is_captured => {
                    let text = String::from_utf8_lossy(text).into_owned();
                    self.names.constants.push((value.key, text));
                }
                _ => self.variables.push((self.names.variable(&value.key), template)),
            }
        }
        Ok(())
    }

    /// A value for a variable that is nowhere is a typing mistake.
    fn check_set(&self) -> Result<(), Error> {
        let is_unused = |name: &&String| !is_named(self.source.text, name);
        match self.set.iter().find(is_unused) {
            None => Ok(()),
            Some(name) => {
                let reason = format!("nothing in it is {{{{{name}}}}}, which is given a value");
                Err(Error::of_file(self.source.path, reason))
            }
        }
    }

    fn check_name(&self, value: &Value<'s>) -> Result<(), Error> {
        let name = &value.key;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(value.error("a variable's name has letters, digits, _ and - only"));
        }
        if RESERVED.contains(&&**name) {
            return Err(value.error("this name means something else in templates; take another"));
        }
        Ok(())
    }

    fn read_base(&mut self, value: &Value<'s>) -> Result<(), Error> {
        let base = self.template(value, &value.text()?)?;
        let Some(base) = base.constant() else {
            return Err(value.error("only variables that never change can stand in it"));
        };
        let parts = Parts::of(base).map_err(|reason| value.error(reason))?;
        if !matches!(parts.rest, b"" | b"/") {
            return Err(value.error("scheme, host and port only; paths belong to the steps' url"));
        }
        self.base = Some(self.origins.add(&parts));
        Ok(())
    }

    fn read_origins(&mut self, value: &Value<'s>) -> Result<(), Error> {
        for url in value.texts()? {
            let parts = Parts::of(url.as_bytes()).map_err(|reason| value.error(reason))?;
            self.origins.add(&parts);
        }
        Ok(())
    }

    fn template(&self, value: &Value<'s>, text: &str) -> Result<Template, Error> {
        Template::compile(text, &self.names, &self.feeders).map_err(|reason| value.error(reason))
    }

    /// The number of the pattern, compiled once however often it is used.
    fn regex(
        &mut self,
        value: &Value<'s>,
        pattern: &str,
        ignore_case: bool,
    ) -> Result<usize, Error> {
        let pattern = if ignore_case { format!("(?i){pattern}") } else { pattern.to_owned() };
        if let Some(at) = self.regexes.iter().position(|known| known.as_str() == pattern) {
            return Ok(at);
        }
        let regex = RegexBuilder::new(&pattern).build().map_err(|error| {
            value.error(format!("bad regular expression: {}", one_line(&error.to_string())))
        })?;
        self.regexes.push(regex);
        Ok(self.regexes.len() - 1)
    }

    /// A file beside the scenario.
    fn file(&self, value: &Value<'s>) -> Result<(PathBuf, Vec<u8>), Error> {
        let name = value.text()?;
        let folder = self.source.path.parent().unwrap_or(Path::new(""));
        let path = folder.join(name);
        match (self.read_file)(&path) {
            Ok(bytes) => Ok((path, bytes)),
            Err(error) => Err(value.error(format!("cannot read {}: {error}", path.display()))),
        }
    }
}

/// A value is the name alone, or the name and how it is written: `{{name|url}}`.
fn is_named(text: &str, name: &str) -> bool {
    let values = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    values.into_iter().any(|(value, _)| value.split('|').next().is_some_and(|n| n.trim() == name))
}

fn session(value: &Value<'_>) -> Result<Session, Error> {
    match &*value.text()? {
        "iteration" => Ok(Session::Iteration),
        "user" => Ok(Session::User),
        _ => Err(value.error("\"iteration\" or \"user\" is wanted")),
    }
}

/// The reason at the end of what the regex library says over several lines.
fn one_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
