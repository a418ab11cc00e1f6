//! A plan: TOML as written -> groups of contestants, resolved and checked. The central noun is the
//! [`Group`]: contestants that are compared with one baseline. Pure: nothing is started here.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use drom_load::Target;
use serde::Deserialize;

use crate::{Error, spelling};

/// A plan, resolved: every axis multiplied out, every default filled in.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub title: String,
    pub source: String,
    pub effect: f64,
    pub budget_s: f64,
    pub blocks: Blocks,
    pub seed: Option<u64>,
    pub mode: Mode,
    pub placement: Placement,
    pub load: LoadSettings,
    pub groups: Vec<Group>,
    pub quick: bool,
}

/// One point of the axes.
#[derive(Clone, Debug)]
pub struct Group {
    pub name: String,
    pub baseline: String,
    pub connections: u32,
    pub same_answer: bool,
    /// The baseline's control is the last one.
    pub contestants: Vec<Contestant>,
}

#[derive(Clone, Debug)]
pub struct Contestant {
    pub name: String,
    pub is_control: bool,
    /// Contestants of a group with the same key share one server.
    pub server: String,
    pub launch: Launch,
    pub request: Request,
    /// Programs or files without which it is skipped.
    pub requires: Vec<String>,
}

/// How to start a server. `{port}` and `{dir}` are still open: every start has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub ready_path: String,
    pub ready_within: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct LoadSettings {
    pub connections: u32,
    pub threads: u32,
    pub slice: Duration,
    pub warmup: Duration,
    pub rounds: u32,
    pub keepalive: bool,
    pub timeout: Duration,
}

/// `min` blocks are the pilot; its spread decides how many more there are, up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Blocks {
    pub min: usize,
    pub max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All servers of a group alive; short slices alternate in random order.
    Interleave,
    /// One server at a time.
    Fresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// The client keeps to its own core(s), the servers to the others.
    Split,
    Shared,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { min: 8, max: 30 }
    }
}

impl Mode {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Interleave => "interleave",
            Self::Fresh => "fresh",
        }
    }
}

/// Fewest blocks that an interval is printed for.
pub const BLOCKS_MIN: usize = 6;

/// What stands for something in every plan.
const OWN_WORDS: [&str; 5] = ["port", "dir", "plan_dir", "drom", "variant"];

const TOO_MANY_THREADS: &str = "there are more threads than connections";

/// Connections are opened and queues fill before a slice counts.
pub fn settle_s(slice_s: f64) -> f64 {
    (slice_s / 10.0).min(0.1)
}

/// How a server is started.
const HOW_KEYS: &[&str] = &["drom", "define", "command", "env", "requires", "ready"];
/// Keys of `[[variant]]` and `[[server]]`.
const KEYS: [&str; 10] =
    ["name", "url", "server", "each", "drom", "define", "command", "env", "requires", "ready"];

impl Plan {
    /// `drom` is the command that stands for `{drom}`.
    pub fn read(path: &Path, drom: &Path) -> Result<Self, Error> {
        let source = std::fs::read_to_string(path)
            .map_err(|source| Error::ReadPlan { path: path.to_owned(), source })?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Self::parse(&source, &folder, drom).map_err(|e| e.in_file(path))
    }

    pub fn parse(source: &str, folder: &Path, drom: &Path) -> Result<Self, Error> {
        let written: Written =
            toml::from_str(source).map_err(|error| Error::syntax(source, &error))?;
        let plan = written.whole().and_then(|written| written.plan(source, folder, drom));
        plan.map_err(|error| error.locate(source))
    }

    /// The smallest run that still is honest: six blocks of short slices.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.quick = true;
        self.load.slice = self.load.slice.min(Duration::from_millis(300));
        self.load.warmup = self.load.warmup.min(Duration::from_millis(200));
        self.load.rounds = 1;
        self.blocks = Blocks { min: BLOCKS_MIN, max: BLOCKS_MIN };
        self
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    title: Option<String>,
    baseline: String,
    #[serde(default = "default_effect")]
    effect: f64,
    #[serde(default = "default_budget")]
    budget: Seconds,
    #[serde(default)]
    blocks: Blocks,
    seed: Option<u64>,
    #[serde(default = "default_mode")]
    mode: Mode,
    #[serde(default = "default_placement")]
    placement: Placement,
    #[serde(default = "yes")]
    same_answer: bool,
    #[serde(default)]
    load: WrittenLoad,
    #[serde(default)]
    axes: toml::Table,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    server: Vec<toml::Table>,
    #[serde(default)]
    variant: Vec<toml::Table>,
    #[serde(skip)]
    servers: Vec<WrittenServer>,
    #[serde(skip)]
    variants: Vec<WrittenVariant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenLoad {
    connections: u32,
    threads: u32,
    slice: Seconds,
    warmup: Seconds,
    rounds: u32,
    keepalive: bool,
    timeout: Seconds,
    method: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Default for WrittenLoad {
    fn default() -> Self {
        Self {
            connections: 8,
            threads: 1,
            slice: Seconds(1.0),
            warmup: Seconds(0.5),
            rounds: 1,
            keepalive: true,
            timeout: Seconds(10.0),
            method: "GET".to_owned(),
            headers: BTreeMap::new(),
            body: String::new(),
        }
    }
}

#[derive(Clone, Default)]
struct HowToStart {
    drom: Option<String>,
    defines: Vec<String>,
    command: Vec<String>,
    env: BTreeMap<String, String>,
    requires: Option<OneOrMany>,
    ready: Option<Ready>,
}

struct WrittenServer {
    name: String,
    /// Every variant gets a process of its own; this table only says how to start it.
    each: bool,
    how: HowToStart,
}

struct WrittenVariant {
    name: String,
    /// Its place among the variants.
    at: usize,
    url: String,
    server: Option<String>,
    how: HowToStart,
}

/// A table whose keys are taken one by one, so that a mistake has the place of its key.
struct Keys<'a> {
    table: toml::Table,
    place: [&'a str; 2],
}

impl Keys<'_> {
    fn take<T: serde::de::DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        value.try_into().map(Some).map_err(|error: toml::de::Error| {
            Error::plan(
                &[self.place[0], self.place[1], key],
                format!("{key}: {}", spelling::plain(error.message())),
            )
        })
    }

    fn name(&mut self) -> Result<String, Error> {
        let table = self.place[0];
        let missing = Error::plan(&self.place, format!("this [[{table}]] has no name"));
        self.take("name")?.ok_or(missing)
    }

    fn how(&mut self) -> Result<HowToStart, Error> {
        Ok(HowToStart {
            drom: self.take("drom")?,
            defines: self.take("define")?.unwrap_or_default(),
            command: self.take("command")?.unwrap_or_default(),
            env: self.take("env")?.unwrap_or_default(),
            requires: self.take("requires")?,
            ready: self.take("ready")?,
        })
    }

    /// A variant that lives on a server says nothing of how that is started.
    fn none_of_its_own(&self, server: &str) -> Result<(), Error> {
        let Some(key) = HOW_KEYS.iter().find(|key| self.table.contains_key(**key)) else {
            return Ok(());
        };
        let message =
            format!("`{key}` belongs to [[server]] `{server}`, which starts this variant");
        Err(Error::plan(&[self.place[0], self.place[1], key], message))
    }

    /// What is left is no key.
    fn end(self, name: &str) -> Result<(), Error> {
        let Some(key) = self.table.keys().next() else { return Ok(()) };
        let (hint, known) = (spelling::hint(key, KEYS), KEYS.join(", "));
        let message = format!("`{name}` has an unknown key `{key}`{hint}; known are {known}");
        Err(Error::plan(&[self.place[0], self.place[1], key], message))
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ready {
    url: Option<String>,
    within: Option<Seconds>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// `"110s"`, `"0.5s"`, `"200ms"`, `"2m"`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "toml::Value")]
struct Seconds(f64);

impl Seconds {
    fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl TryFrom<toml::Value> for Seconds {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
        units
            .into_iter()
            .find_map(|(unit, scale)| {
                let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
                (number.is_finite() && (0.0..=1e6).contains(&number)).then_some(number * scale)
            })
            .map(Seconds)
            .ok_or_else(|| format!("`{text}` is no duration; write \"200ms\", \"1.5s\" or \"2m\""))
    }
}

type Point = Vec<(String, String)>;
type Words = BTreeMap<String, String>;

impl Written {
    /// Reads the tables of servers and variants.
    fn whole(mut self) -> Result<Self, Error> {
        for (at, table) in std::mem::take(&mut self.server).into_iter().enumerate() {
            let mut keys = Keys { table, place: ["server", &at.to_string()] };
            let (name, how) = (keys.name()?, keys.how()?);
            let each = keys.take("each")?.unwrap_or_default();
            keys.end(&name)?;
            self.servers.push(WrittenServer { name, each, how });
        }
        for (at, table) in std::mem::take(&mut self.variant).into_iter().enumerate() {
            let mut keys = Keys { table, place: ["variant", &at.to_string()] };
            let (url, server): (_, Option<String>) =
                (keys.take("url")?.unwrap_or_default(), keys.take("server")?);
            if let Some(server) = &server {
                keys.none_of_its_own(server)?;
            }
            let (name, how) = (keys.name()?, keys.how()?);
            keys.end(&name)?;
            self.variants.push(WrittenVariant { name, at, url, server, how });
        }
        Ok(self)
    }

    fn plan(self, source: &str, folder: &Path, drom: &Path) -> Result<Plan, Error> {
        self.check()?;
        let constants = BTreeMap::from([
            ("plan_dir".to_owned(), folder.display().to_string()),
            ("drom".to_owned(), drom.display().to_string()),
        ]);
        let groups = points(&self.axes)
            .into_iter()
            .map(|point| self.group(&point, &constants))
            .collect::<Result<Vec<_>, _>>()?;
        self.check_axes_matter(&constants)?;
        self.resolve(source, groups)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |place: &[&str], message: String| Err(Error::plan(place, message));
        if !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            || self.name.is_empty()
        {
            let message = format!("name `{}` names a folder: letters, digits, - _ .", self.name);
            return wrong(&["name"], message);
        }
        if !(self.effect > 0.0 && self.effect < 1.0) {
            let message = format!("effect = {} must lie between 0 and 1", self.effect);
            return wrong(&["effect"], message);
        }
        if self.budget.0 <= 0.0 {
            return wrong(&["budget"], "budget = 0 leaves no time to measure".to_owned());
        }
        if self.blocks.min < BLOCKS_MIN || self.blocks.max < self.blocks.min {
            let message = format!("blocks: min is {BLOCKS_MIN} or more, max not below min");
            return wrong(&["blocks"], message);
        }
        self.check_load()?;
        self.check_axes()?;
        if self.variants.len() < 2 {
            let message = "a comparison needs two [[variant]] tables or more".to_owned();
            return wrong(&["variant"], message);
        }
        self.check_names()
    }

    /// What the load engine would refuse when the first server is up is refused here.
    fn check_load(&self) -> Result<(), Error> {
        let load = &self.load;
        let wrong =
            |key: &str, what: String| Err(Error::plan(&["load", key], format!("load: {what}")));
        let counts =
            [("connections", load.connections), ("threads", load.threads), ("rounds", load.rounds)];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return wrong(key, format!("{key} must be 1 or more"));
        }
        if load.slice.0 < 0.05 {
            return wrong("slice", "a slice is 50ms or longer".to_owned());
        }
        if load.timeout.0 <= 0.0 {
            return wrong("timeout", "a timeout of zero leaves no time to answer".to_owned());
        }
        if load.threads > load.connections && !self.axes.contains_key("connections") {
            return wrong("threads", format!("{TOO_MANY_THREADS} ({})", load.connections));
        }
        if let Err(error) = self.would_load("/", "GET", &load.headers) {
            return wrong("headers", error);
        }
        if let Err(error) = self.would_load("/", &load.method, &load.headers) {
            return wrong("method", error);
        }
        Ok(())
    }

    /// Whether the load engine takes such a request.
    fn would_load(&self, path: &str, method: &str, headers: &Words) -> Result<(), String> {
        let address = ([127, 0, 0, 1], 80).into();
        let target = Target { host: "localhost".to_owned(), ..Target::at(address, path) };
        let plan = drom_load::Plan {
            method: method.to_owned(),
            headers: headers.clone().into_iter().collect(),
            body: self.load.body.clone().into_bytes(),
            ..drom_load::Plan::get(target)
        };
        plan.check().map_err(|error| error.to_string())
    }

    /// An axis without values would leave nothing to compare, silently; one with a value twice
    /// would make two groups of one name.
    fn check_axes(&self) -> Result<(), Error> {
        for (axis, values) in &self.axes {
            let place = ["axes", axis.as_str()];
            if OWN_WORDS.contains(&axis.as_str()) {
                let message =
                    format!("the axis {axis}: {{{axis}}} already stands for something else");
                return Err(Error::plan(&place, message));
            }
            let texts = texts(values);
            if texts.is_empty() {
                return Err(Error::plan(&place, format!("the axis {axis} has no value")));
            }
            if let Some((_, twice)) =
                texts.iter().enumerate().find(|(i, t)| texts[..*i].contains(t))
            {
                let message = format!("two values of the axis {axis} are `{twice}`");
                return Err(Error::plan(&place, message));
            }
            let values = listed(values);
            let number = |value: &toml::Value| {
                value.as_integer().is_some_and(|n| n > 0 && u32::try_from(n).is_ok())
            };
            if axis == "connections" && !values.iter().all(number) {
                let message = "the axis connections holds numbers of 1 or more";
                return Err(Error::plan(&place, message));
            }
            let fewest = values.iter().filter_map(toml::Value::as_integer).min().unwrap_or(1);
            if axis == "connections" && i64::from(self.load.threads) > fewest {
                return Err(Error::plan(&place, format!("{TOO_MANY_THREADS} ({fewest})")));
            }
        }
        Ok(())
    }

    /// The groups of an axis that changes nothing would all be the same.
    fn check_axes_matter(&self, constants: &Words) -> Result<(), Error> {
        for axis in self.axes.keys().filter(|axis| *axis != "connections") {
            let mut others = self.axes.clone();
            others.remove(axis);
            // A plan that holds together without the word has no place for it.
            let point = points(&others).swap_remove(0);
            if self.group(&point, constants).is_ok() {
                let message = format!(
                    "the axis {axis}: {{{axis}}} stands nowhere in the plan, so that its groups \
                     would be the same"
                );
                return Err(Error::plan(&["axes", axis], message));
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), Error> {
        let names: Vec<&str> = self.variants.iter().map(|v| v.name.as_str()).collect();
        if let Some((at, twice)) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
            let message = format!("two variants are named `{twice}`");
            return Err(Error::plan(&["variant", &at.to_string(), "name"], message));
        }
        let control = control_name(&self.baseline);
        if let Some(at) = names.iter().position(|name| *name == control) {
            let message = format!("`{control}` is the name of the baseline's A/A pair");
            return Err(Error::plan(&["variant", &at.to_string(), "name"], message));
        }
        if !names.contains(&self.baseline.as_str()) {
            let known = names.join(", ");
            let message = format!("baseline `{}` is no variant; there are {known}", self.baseline);
            return Err(Error::plan(&["baseline"], message));
        }
        let servers: Vec<&str> = self.servers.iter().map(|s| s.name.as_str()).collect();
        if let Some((at, twice)) =
            servers.iter().enumerate().find(|(i, n)| servers[..*i].contains(n))
        {
            let message = format!("two servers are named `{twice}`");
            return Err(Error::plan(&["server", &at.to_string(), "name"], message));
        }
        Ok(())
    }

    fn group(&self, point: &Point, constants: &Words) -> Result<Group, Error> {
        let mut words = constants.clone();
        words.extend(point.iter().cloned());
        let mut contestants = Vec::new();
        for variant in &self.variants {
            contestants.push(self.contestant(variant, &words)?);
        }
        let baseline = contestants.iter().find(|c| c.name == self.baseline);
        let control = baseline.expect("checked: the baseline is a variant").clone();
        contestants.push(Contestant {
            name: control_name(&control.name),
            is_control: true,
            server: format!("{}\u{0}again", control.server),
            ..control
        });
        let connections = words.get("connections").map(|n| n.parse().ok()).unwrap_or(None);
        let values: Vec<String> = point.iter().map(|(axis, value)| told(axis, value)).collect();
        Ok(Group {
            name: if values.is_empty() { self.name.clone() } else { values.join(", ") },
            baseline: self.baseline.clone(),
            connections: connections.unwrap_or(self.load.connections),
            same_answer: self.same_answer,
            contestants,
        })
    }

    fn contestant(&self, variant: &WrittenVariant, words: &Words) -> Result<Contestant, Error> {
        let mut words = words.clone();
        words.insert("variant".to_owned(), variant.name.clone());
        let (server, how, place) = self.how_to_start(variant)?;
        let fill = |place: &[&str], text: &str| fill(text, &words, &variant.name, place);
        let table = |key| [&place.0[..], &place.1[..], key];
        let at = variant.at.to_string();
        let path = fill(&["variant", &at, "url"], &variant.url)?;
        self.check_path(&path, variant, &["variant", &at, "url"])?;
        let ready = how.ready.clone().unwrap_or(Ready { url: None, within: None });
        let ready_path = fill(&table("ready"), ready.url.as_deref().unwrap_or(&variant.url))?;
        self.check_path(&ready_path, variant, &table("ready"))?;
        let mut env = BTreeMap::new();
        for (key, value) in &self.env {
            env.insert(key.clone(), fill(&["env", key], value)?);
        }
        for (key, value) in &how.env {
            env.insert(key.clone(), fill(&[&place.0, &place.1, "env", key], value)?);
        }
        let argv = argv(&how, &variant.name, &table("command"))?;
        let fill_all = |key, texts: &[String]| -> Result<Vec<String>, Error> {
            texts.iter().map(|text| fill(&table(key), text)).collect()
        };
        let argv = fill_all(if how.drom.is_some() { "drom" } else { "command" }, &argv)?;
        check_port(&argv, &env, &variant.name, &table("command"))?;
        let within = ready.within.unwrap_or(Seconds(10.0)).duration();
        let requires = match how.requires {
            None => Vec::new(),
            Some(OneOrMany::One(one)) => vec![one],
            Some(OneOrMany::Many(many)) => many,
        };
        Ok(Contestant {
            name: variant.name.clone(),
            is_control: false,
            server,
            launch: Launch { argv, env, ready_path, ready_within: within },
            request: self.request(path),
            requires: fill_all("requires", &requires)?,
        })
    }

    fn check_path(&self, path: &str, who: &WrittenVariant, place: &[&str]) -> Result<(), Error> {
        let name = &who.name;
        let message = if path.is_empty() {
            format!("`{name}` has no url")
        } else if !path.starts_with('/') {
            format!("`{name}`: url `{path}` must begin with /; the server's address is drom's own")
        } else if let Err(error) = self.would_load(path, "GET", &Words::new()) {
            format!("`{name}`: url: {error}")
        } else {
            return Ok(());
        };
        Err(Error::plan(place, message))
    }

    /// Which server a variant lives on, how that is started, and the table that says so.
    fn how_to_start(
        &self,
        variant: &WrittenVariant,
    ) -> Result<(String, HowToStart, (String, String)), Error> {
        let own = ("variant".to_owned(), variant.at.to_string());
        let Some(name) = &variant.server else {
            return Ok((format!("variant {}", variant.name), variant.how.clone(), own));
        };
        let Some(at) = self.servers.iter().position(|server| server.name == *name) else {
            let message = format!("`{}` names server `{name}`; no [[server]] has it", variant.name);
            return Err(Error::plan(&[&own.0, &own.1, "server"], message));
        };
        let (server, place) = (&self.servers[at], ("server".to_owned(), at.to_string()));
        let key = if server.each {
            format!("variant {}", variant.name)
        } else {
            format!("server {name}")
        };
        Ok((key, server.how.clone(), place))
    }

    fn request(&self, path: String) -> Request {
        Request {
            method: self.load.method.clone(),
            path,
            headers: self.load.headers.clone().into_iter().collect(),
            body: self.load.body.clone().into_bytes(),
        }
    }

    fn resolve(self, source: &str, groups: Vec<Group>) -> Result<Plan, Error> {
        let load = LoadSettings {
            connections: self.load.connections,
            threads: self.load.threads,
            slice: self.load.slice.duration(),
            warmup: self.load.warmup.duration(),
            rounds: self.load.rounds,
            keepalive: self.load.keepalive,
            timeout: self.load.timeout.duration(),
        };
        Ok(Plan {
            title: self.title.unwrap_or_else(|| self.name.clone()),
            name: self.name,
            source: source.to_owned(),
            effect: self.effect,
            budget_s: self.budget.0,
            blocks: self.blocks,
            seed: self.seed,
            mode: self.mode,
            placement: self.placement,
            load,
            groups,
            quick: false,
        })
    }
}

/// A point of an axis in words: a bare number needs its noun.
fn told(axis: &str, value: &str) -> String {
    match value.parse::<f64>() {
        Ok(1.0) if axis == "connections" => "1 connection".to_owned(),
        Ok(_) if axis == "connections" => format!("{value} connections"),
        Ok(_) => format!("{axis} {value}"),
        Err(_) => value.to_owned(),
    }
}

/// The baseline under its second label.
fn control_name(baseline: &str) -> String {
    format!("{baseline} (again)")
}

fn argv(how: &HowToStart, variant: &str, place: &[&str]) -> Result<Vec<String>, Error> {
    match (&how.drom, &how.command[..]) {
        (Some(file), []) => {
            let file = if PathBuf::from(file).is_absolute() {
                file.clone()
            } else {
                format!("{{plan_dir}}/{file}")
            };
            let fixed = ["{drom}", "serve", "-f", &file, "--listen", "127.0.0.1:{port}"];
            let mut argv: Vec<String> = fixed.map(str::to_owned).to_vec();
            argv.extend(how.defines.iter().flat_map(|d| ["-D".to_owned(), d.clone()]));
            Ok(argv)
        }
        (None, [_, ..]) => Ok(how.command.clone()),
        _ => Err(Error::plan(
            place,
            format!("`{variant}` needs one of drom = \"FILE\", command = [...], server"),
        )),
    }
}

/// Servers of a group live side by side, so that each start has a port of its own.
fn check_port(argv: &[String], env: &Words, variant: &str, place: &[&str]) -> Result<(), Error> {
    let told = argv.iter().chain(env.values()).any(|text| text.contains("{port}"));
    if told {
        return Ok(());
    }
    let message = format!(
        "`{variant}`: neither its command nor its env has {{port}}; every start gets a free port \
         of its own, which the server must be told"
    );
    Err(Error::plan(place, message))
}

/// Every combination of the axes' values, in the order of the plan.
fn points(axes: &toml::Table) -> Vec<Point> {
    let mut points = vec![Vec::new()];
    for (axis, values) in axes {
        let texts = texts(values);
        let with_each = |point: &Point| {
            let longer = |text: &String| [&point[..], &[(axis.clone(), text.clone())]].concat();
            texts.iter().map(longer).collect::<Vec<Point>>()
        };
        points = points.iter().flat_map(with_each).collect();
    }
    points
}

/// The values of an axis; a single one need not be a list.
fn listed(values: &toml::Value) -> &[toml::Value] {
    values.as_array().map_or(std::slice::from_ref(values), Vec::as_slice)
}

/// The same as they stand for its word.
fn texts(values: &toml::Value) -> Vec<String> {
    let text =
        |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    listed(values).iter().map(text).collect()
}

/// Replaces `{word}`. `{port}` and `{dir}` stay for the start.
fn fill(text: &str, words: &Words, variant: &str, place: &[&str]) -> Result<String, Error> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else { break };
        let word = &rest[open + 1..open + close];
        out += &rest[..open];
        match words.get(word) {
            Some(value) => out += value,
            None if matches!(word, "port" | "dir") => out += &rest[open..=open + close],
            None => {
                let known: Vec<&str> = words.keys().map(String::as_str).collect();
                let known = known.join("}, {");
                let message = format!(
                    "`{variant}`: `{{{word}}}` in `{text}` stands for nothing; there are {{port}}, \
                     {{dir}}, {{{known}}}"
                );
                return Err(Error::plan(place, message));
            }
        }
        rest = &rest[open + close + 1..];
    }
    Ok(out + rest)
}

fn default_effect() -> f64 {
    0.02
}

fn default_budget() -> Seconds {
    Seconds(300.0)
}

fn default_mode() -> Mode {
    Mode::Interleave
}

fn default_placement() -> Placement {
    Placement::Split
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        name = "race"
        baseline = "a"
        budget = "2m"
        [load]
        slice = "200ms"
        [axes]
        script = ["hello", "heavy"]
        connections = [1, 8]
        [[server]]
        name = "one"
        drom = "x.conf"
        define = ["FAST"]
        requires = "perl"
        [[variant]]
        name = "a"
        server = "one"
        url = "/a/{script}"
        [[variant]]
        name = "b"
        command = ["httpd", "-p", "{port}", "-d", "{dir}", "{plan_dir}/c"]
        url = "/{script}?v={variant}"
        ready = { url = "/", within = "3s" }
    "#;

    fn parse(text: &str) -> Result<Plan, Error> {
        Plan::parse(text, Path::new("/plans"), Path::new("/bin/drom"))
    }

    #[test]
    fn axes_multiply_and_words_are_filled_in() {
        let plan = parse(PLAN).expect("a good plan");
        let names: Vec<&str> = plan.groups.iter().map(|g| g.name.as_str()).collect();
        let expected = ["hello, 1 connection", "hello, 8 connections"];
        assert_eq!(names[..2], expected);
        let numbers = PLAN.replace("script = [\"hello\", \"heavy\"]", "script = [10, \"big\"]");
        assert_eq!(parse(&numbers).expect("good").groups[0].name, "script 10, 1 connection");
        let group = &plan.groups[2];
        assert_eq!(group.connections, 1);
        let [a, b, control] = &group.contestants[..] else { panic!("{group:?}") };
        let drom = "/bin/drom serve -f /plans/x.conf --listen 127.0.0.1:{port} -D FAST";
        assert_eq!(a.launch.argv.join(" "), drom);
        assert_eq!(a.request.path, "/a/heavy");
        assert_eq!(b.launch.argv.join(" "), "httpd -p {port} -d {dir} /plans/c");
        assert_eq!((b.request.path.as_str(), b.launch.ready_path.as_str()), ("/heavy?v=b", "/"));
        assert!(control.is_control && control.server != a.server);
        assert_eq!(plan.budget_s, 120.0);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            (("baseline = \"a\"", "baseline = \"z\""), "no variant; there are a, b"),
            (("{script}?v", "{skript}?v"), "stands for nothing"),
            (("\"2m\"", "\"2 parsecs\""), "no duration"),
            (("url = \"/a", "url = \"a"), "must begin with /"),
            (("server = \"one\"", "server = \"two\""), "no [[server]] has it"),
            (("name = \"b\"", "name = \"a\""), "two variants are named"),
            (("name = \"b\"", "name = \"a (again)\""), "the baseline's A/A pair"),
            (("define =", "definne ="), "unknown key `definne`"),
            (("[load]", "[lod]"), "unknown key `lod`"),
            (("name = \"race\"", "name = \"../x\""), "names a folder"),
            (("\"-p\", \"{port}\", ", ""), "neither its command nor its env has {port}"),
            (("[load]\n        slice", "[load]\n        slize"), "did you mean `slice`?"),
            (("baseline =", "base_line ="), "did you mean `baseline`?"),
            (("define =", "defines ="), "did you mean `define`?"),
            (("ready = { url", "ready = { uri"), "did you mean `url`?"),
            (
                ("server = \"one\"", "server = \"one\"\nenv = { A = \"b\" }"),
                "`env` belongs to [[server]]",
            ),
        ];
        for ((from, to), expected) in cases {
            let error = parse(&PLAN.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn a_mistake_has_its_line() {
        let cases = [
            ("baseline = \"a\"", "baseline = \"z\"", "line 3: "),
            ("url = \"/a", "url = \"a", "line 18: "),
            ("url = \"/a", "url = \"/a b", "line 18: `a`: url: the request cannot be sent"),
            ("slice = \"200ms\"", "slice = \"2ms\"", "line 6: "),
            ("slice = \"200ms\"", "slice = 0.2", "line 6: `0.2` is no duration"),
            ("slice = \"200ms\"", "slice = \"soon\"", "line 6: `soon` is no duration"),
            ("slice = \"200ms\"", "slice = \"1s\"; x", "line 6: "),
            ("slice = \"200ms\"", "connections = 0", "line 6: load: connections must be 1"),
            ("slice = \"200ms\"", "threads = 2", "line 9: there are more threads than"),
            ("slice = \"200ms\"", "timeout = \"0s\"", "line 6: load: a timeout of zero"),
            ("slice = \"200ms\"", "method = \"GE T\"", "line 6: load: the request cannot"),
            ("slice = \"200ms\"", "headers = { Expect = \"x\" }", "line 6: load: the request"),
            ("slice = \"200ms\"", "slize = \"200ms\"", "line 6: unknown key `slize`"),
            ("script = [\"hello\", \"heavy\"]", "script = []", "line 8: "),
            ("[1, 8]", "[1, 0]", "line 9: "),
            ("[1, 8]", "[8, 8]", "line 9: two values of the axis connections are `8`"),
            ("\"heavy\"]", "\"hello\"]", "line 8: two values of the axis script are `hello`"),
            ("\"heavy\"]", "1, \"1\"]", "line 8: two values of the axis script are `1`"),
            (
                "script =",
                "page = [1, 2]\n script =",
                "line 8: the axis page: {page} stands nowhere",
            ),
            (
                "script =",
                "port = [1, 2]\n script =",
                "line 8: the axis port: {port} already stands for",
            ),
            ("[1, 8]", "[1, 8_000_000_000]", "line 9: "),
            ("name = \"b\"", "name = \"a\"", "line 20: two variants are named `a`"),
            ("name = \"b\"", "name = 'a'  # again", "line 20: two variants are named `a`"),
            ("name = \"race\"", "name = \"a b\"", "line 2: name `a b` names a folder"),
            ("\"{plan_dir}/c\"", "\"{plan}/c\"", "line 21: "),
            ("define =", "defines =", "line 13: `one` has an unknown key `defines`; did you"),
            ("budget = \"2m\"", "mode = \"duet\"", "line 4: `duet` is not possible here"),
            ("budget = \"2m\"", "blocks = 3", "line 4: a table is wanted, not `3`"),
            ("budget = \"2m\"", "blocks = { min = -1 }", "line 4: a whole number of 0 or"),
            ("budget = \"2m\"", "blocks = { min = \"a\" }", "line 4: a whole number of 0 or"),
            ("budget = \"2m\"", "load = \"a\"", "line "),
            ("budget = \"2m\"", "seed = -1", "line 4: a whole number of 0 or more"),
            ("requires = \"perl\"", "requires = 3", "line 14: requires: a text or a list"),
            ("\"3s\"", "\"3 parsecs\"", "line 23: ready: `3 parsecs` is no duration"),
            ("define = [\"FAST\"]", "define = \"FAST\"", "line 13: define: "),
            ("name = \"b\"", "", "line 19: this [[variant]] has no name"),
        ];
        for (from, to, expected) in cases {
            let error = parse(&PLAN.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn quick_is_six_short_blocks() {
        let plan = parse(PLAN).expect("good").quick();
        assert_eq!(plan.blocks, Blocks { min: 6, max: 6 });
        assert!(plan.load.slice <= Duration::from_millis(300));
    }
}
