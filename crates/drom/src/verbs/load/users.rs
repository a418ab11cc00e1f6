//! Who asks, where it is not one request again and again: flags of scenarios, lists of URLs and
//! recordings, and the scenario that they make. Reads the files; knows no sockets.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drom_load::{Arrivals, Pace, Plan, Scene, Stage, Stop, Target};
use drom_scenario::{
    AccessLog, LogOptions, Scenario, UrlOrder, WriteOptions, read_har, write_scenario,
};

use super::{Failure, request::Request, text::number_of, transport::Transport};
use crate::{exit::Exit, say};

/// Behind the last request of a recording.
const LAST_NS: u64 = 1_000_000;

#[derive(clap::Args)]
#[command(next_help_heading = "Users, lists and recordings")]
pub struct Users {
    /// Ask for the URLs in this file, one a line; paths are asked of the URL
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub urls: Option<PathBuf>,
    /// Rows for {{column}} in the URL, the headers and the body: a .csv or .jsonl file
    ///
    /// Besides, there are {{seq}}, {{random 1 100}}, {{uuid}} and what --var sets; {{name|url}} is
    /// percent-encoded (docs/scenario.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "replay"])]
    feeder: Option<String>,
    /// Which URL or row is next: round-robin, random, or weighted [default: round-robin]
    ///
    /// By the numbers behind the URLs, or in the column weight.
    #[arg(long, value_name = "HOW", value_parser = UrlOrder::of)]
    order: Option<UrlOrder>,
    /// Ask again what this access log (common or combined) says, at its times
    #[arg(long, value_name = "LOG")]
    pub replay: Option<PathBuf>,
    /// With --replay: other methods than GET and HEAD too, without their bodies
    #[arg(long, requires = "replay")]
    all_methods: bool,
    /// Pauses and times of a recording or scenario so many times as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    speed: f64,
    /// A variable of the scenario, or for {{NAME}} in a request; can be repeated
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
}

/// What users do.
pub struct Cast {
    pub scenario: Scenario,
    /// When requests were made, where that was recorded.
    pub times_ns: Option<Vec<u64>>,
}

impl Users {
    pub fn has_order(&self) -> bool {
        self.order.is_some()
    }

    /// What the target and the flags say that users do; `None`: the same request again and again.
    /// `order` is that of a list where no flag says another.
    pub fn cast(
        &self,
        target: Option<&str>,
        request: &Request,
        order: UrlOrder,
    ) -> Result<Option<Cast>, Failure> {
        let order = self.order.unwrap_or(order);
        request.check().map_err(usage)?;
        if self.order.is_some() && self.urls.is_none() && self.feeder.is_none() {
            return Err(usage("--order goes with --urls or --feeder".to_owned()));
        }
        let url = target.filter(|target| target.contains("://"));
        let url = url.filter(|_| self.urls.is_none() && self.replay.is_none());
        if let Some(scenario) =
            url.map(|url| self.values(url, request, order)).transpose()?.flatten()
        {
            return Ok(Some(Cast::of(scenario)));
        }
        let mut cast = self.told(target, order)?;
        if let Some(cast) = &mut cast {
            request.apply_to(&mut cast.scenario)?;
        }
        Ok(cast)
    }

    /// One request with values in it.
    fn values(
        &self,
        url: &str,
        request: &Request,
        order: UrlOrder,
    ) -> Result<Option<Scenario>, Failure> {
        if self.speed != 1.0 {
            let message = "--speed goes with a scenario, an archive or --replay";
            return Err(usage(message.to_owned()));
        }
        let is_told = self.feeder.is_some() || !self.variables.is_empty();
        if !is_told && !request.has_values(url)? {
            return Ok(None);
        }
        let feeder = self.feeder.as_deref().map(|file| (file, order));
        request.scenario(url, feeder, &self.variables).map(Some)
    }

    /// What a file says that users do.
    fn told(&self, target: Option<&str>, order: UrlOrder) -> Result<Option<Cast>, Failure> {
        if let Some(list) = &self.urls {
            let scenario = Scenario::read_urls(list, target, order).map_err(wrong)?;
            return Ok(Some(Cast::of(scenario)));
        }
        let target = target.unwrap_or_default();
        if let Some(log) = &self.replay {
            return self.recorded(log, target).map(Some);
        }
        if self.feeder.is_some() {
            return Err(usage("--feeder goes with a URL; a scenario names its own".to_owned()));
        }
        let path = Path::new(target);
        let mut scenario = match path.extension().and_then(|extension| extension.to_str()) {
            _ if target.contains("://") => return Ok(None),
            Some("toml") => Scenario::read(path, &self.variables).map_err(wrong)?,
            Some("har") => self.archive(path)?,
            _ if path.is_file() => return Err(usage(format!("{target}: {OTHER_FILE}"))),
            _ => return Ok(None),
        };
        scenario.scale_think(1.0 / self.speed);
        Ok(Some(Cast::of(scenario)))
    }

    fn archive(&self, path: &Path) -> Result<Scenario, Failure> {
        let exchanges = read_har(path, &read(path)?).map_err(wrong)?;
        let (exchanges, others): (Vec<_>, Vec<_>) =
            exchanges.into_iter().partition(|exchange| exchange.can_be_asked_again());
        if !others.is_empty() {
            let left_out = number_of(others.len() as u64, "request");
            let why = "had no answer, or no URL of http without a user name";
            say::line(format!("{}: left out: {left_out} that {why}", path.display()));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = write_scenario(&name, &exchanges, &WriteOptions::default());
        let no_file = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
        Scenario::parse(&text, path, &self.variables, &no_file).map_err(wrong)
    }

    fn recorded(&self, path: &Path, base: &str) -> Result<Cast, Failure> {
        let place = base.split_once("://").map_or("", |(_, behind)| behind);
        if place.split_once('/').is_some_and(|(_, path)| !path.is_empty()) {
            let message =
                format!("{base}: with --replay the log says the paths; name a server only");
            return Err(usage(message));
        }
        let options = LogOptions { all_methods: self.all_methods, ..LogOptions::default() };
        let mut log = AccessLog::read(path, &read(path)?, options).map_err(wrong)?;
        if log.bad_lines + log.unsafe_requests > 0 {
            say::line(left_out(path, &log));
        }
        let times_ns = std::mem::take(&mut log.times_ns);
        let times_ns = times_ns.into_iter().map(|ns| (ns as f64 / self.speed) as u64).collect();
        let scenario = log.scenario(path, base).map_err(wrong)?;
        Ok(Cast { times_ns: Some(times_ns), ..Cast::of(scenario) })
    }
}

const OTHER_FILE: &str = "what is in this file? A scenario ends in .toml, an HTTP archive in .har; \
                          a list of URLs is given as --urls FILE, an access log as --replay FILE";

/// How much of it is done.
pub struct Part {
    pub seed: u64,
    pub rounds: Option<u64>,
    pub duration: Option<Duration>,
}

impl Cast {
    fn of(scenario: Scenario) -> Self {
        Self { scenario, times_ns: None }
    }

    /// Lines of a list or a log; 1 of anything else.
    pub fn rows(&self) -> usize {
        let list = self.scenario.feeders().first().filter(|_| self.scenario.is_list);
        list.map_or(1, drom_scenario::Feeder::rows)
    }

    /// Where its servers are; at least one.
    pub fn targets(&self, transport: &Transport) -> Result<Vec<Target>, Failure> {
        let urls = self.scenario.origins().iter().map(|origin| format!("{origin}/"));
        let targets = urls.map(|url| transport.target(&url)).collect::<Result<Vec<_>, _>>()?;
        match targets.is_empty() {
            true => Err(usage("the scenario asks no server".to_owned())),
            false => Ok(targets),
        }
    }

    /// These users in place of the one request of `plan`. Rounds that were counted, or recorded,
    /// go on to their ends.
    pub fn plan(self, plan: Plan, targets: Vec<Target>, part: &Part) -> Plan {
        let is_recorded = self.times_ns.is_some();
        let pace = self.times_ns.map_or(plan.pace, |times| Some(recorded(times, part)));
        let scene = Scene {
            scenario: Arc::new(self.scenario),
            targets,
            seed: part.seed,
            finishes_rounds: is_recorded || part.rounds.is_some(),
            is_test: false,
            connects_for_rounds: false,
            on_close: drom_load::OnClose::default(),
            raw: None,
        };
        let stop = pace.as_ref().map_or(plan.stop, |pace| Stop::After(pace.duration()));
        Plan { scene: Some(scene), pace, stop, ..plan }
    }
}

/// The times as far as they are wanted, and a stage as long as they take; as long as was asked for,
/// where that cut some off.
fn recorded(mut times_ns: Vec<u64>, part: &Part) -> Pace {
    let most = part.rounds.map_or(usize::MAX, |rounds| rounds as usize);
    let end_ns = part.duration.map_or(u64::MAX, |duration| duration.as_nanos() as u64);
    let wanted = times_ns.iter().take(most).take_while(|ns| **ns < end_ns).count();
    let is_cut_by_time = wanted < times_ns.len().min(most);
    times_ns.truncate(wanted);
    let last_ns = times_ns.last().copied().unwrap_or(0);
    let lasts_ns = if is_cut_by_time { end_ns } else { last_ns + LAST_NS };
    let duration = Duration::from_nanos(lasts_ns);
    let mean_rps = times_ns.len() as f64 / duration.as_secs_f64();
    let stages = vec![Stage::steady(duration, mean_rps)];
    Pace { arrivals: Arrivals::Recorded(times_ns.into()), stages }
}

fn left_out(path: &Path, log: &AccessLog) -> String {
    let mut words = format!("{}: left out:", path.display());
    if log.unsafe_requests > 0 {
        let more = log.unsafe_requests;
        words += &format!(" {more} requests that are neither GET nor HEAD (--all-methods)");
    }
    if let Some(bad) = log.bad.first() {
        let comma = if log.unsafe_requests > 0 { ";" } else { "" };
        words += &format!(
            "{comma} {} lines, the first is line {}: {}",
            log.bad_lines, bad.line, bad.reason
        );
    }
    words
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| usage(format!("cannot read {}: {error}", path.display())))
}

fn wrong(error: drom_scenario::Error) -> Failure {
    usage(error.to_string())
}

fn usage(message: String) -> Failure {
    Failure { message, exit: Exit::Usage }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    let factor = factor.filter(|factor| (0.001..=1e6).contains(factor));
    factor
        .ok_or_else(|| "a factor is a number from 0.001 to 1000000; 2 is twice as fast".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a variable looks like name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_cut_where_it_is_asked_to_be() {
        let of = |rounds, duration| {
            let part = Part { seed: 1, rounds, duration };
            let pace = recorded(vec![0, 5_000_000, 9_000_000], &part);
            let Arrivals::Recorded(times) = &pace.arrivals else { panic!("another kind") };
            (times.to_vec(), pace.duration())
        };
        let ms = Duration::from_millis;
        assert_eq!(of(None, None), (vec![0, 5_000_000, 9_000_000], ms(10)));
        assert_eq!(of(Some(2), None), (vec![0, 5_000_000], ms(6)));
        assert_eq!(of(None, Some(ms(5))), (vec![0], ms(5)));
        assert_eq!(of(None, Some(ms(50))), (vec![0, 5_000_000, 9_000_000], ms(10)));
    }

    #[test]
    fn factors_are_read() {
        assert_eq!((factor("2"), factor("0.5x")), (Ok(2.0), Ok(0.5)));
        assert!(["", "0", "-1", "x", "inf", "NaN", "1e9"].iter().all(|text| factor(text).is_err()));
    }
}
