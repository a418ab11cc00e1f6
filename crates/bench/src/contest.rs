//! Holds one row's contest: both sides up, both answers checked, rounds in random order, a ratio
//! (or the figure of one that has no peer) with an interval. The rounds are the blocks of the
//! statistics; requests are not.

use std::time::Duration;

use drom_load::NullServer;
use drom_observe::{allowed_cores, pin_current_thread};
use drom_stats::{Estimate, Paired, Rng};

use crate::{
    alone,
    arrivals::{Arrivals, lateness_of_nobody_p99_us, lateness_p99_us},
    client::{self, Job, Seen},
    cost::{self, Work},
    error::Error,
    profile,
    server::{Ground, Kind, Server, Way},
    table::{Alone, Figure, Race, Row, Side},
};

#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub count: usize,
    pub each: Duration,
    pub warm_up: Duration,
}

/// One round: the figure of either side, and who began. Without a peer its figure is 1.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub drom: f64,
    pub peer: f64,
    pub drom_first: bool,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub rounds: Vec<Round>,
    /// Drom / peer; without a peer Drom's figure.
    pub ratio: Estimate,
}

pub fn hold(row: &Row, ground: &Ground, rounds: Rounds, rng: &mut Rng) -> Result<Outcome, Error> {
    match row.figure {
        Figure::Servers { drom, peer } => {
            let (mine, other) = (ground.start(drom.kind, None)?, ground.start(peer.kind, None)?);
            same_answer(&mine, drom, &other, peer)?;
            let of = |server: &Server, side: Side| {
                let url = server.url(side.path);
                let connections = row.connections;
                move |duration| {
                    let job = Job { url: &url, connections, duration, core: None };
                    client::wrk(job).map(|seen| seen.rate_rps)
                }
            };
            play(rounds, rng, of(&mine, drom), of(&other, peer))
        }
        Figure::ClientRate { server } => {
            let running = ground.start(server.kind, None)?;
            running.await_answer(server.path)?;
            race_clients(row, ground, &running, server, None, rounds, rng, |seen| seen.rate_rps)
        }
        Figure::ClientMedian { server } => {
            let (first, last) = two_cores()?;
            let running = ground.start(server.kind, Some(first))?;
            running.await_answer(server.path)?;
            let core = Some(last);
            race_clients(row, ground, &running, server, core, rounds, rng, |seen| seen.median_us)
        }
        Figure::ClientCost(race) => race_costs(row, race, ground, rounds, rng),
        Figure::Scenario { path } => race_users(row, path, ground, rounds, rng),
        Figure::Lateness { rate } => race_schedules(row, rate, ground, rounds, rng),
        Figure::MachineLag { rate } => {
            let place = Place::new(ground, Way::Plain)?;
            let url = place.url(Way::Plain, "/hello.txt");
            let lag = Alone::LagP99 { rate };
            let mine = |time| alone::measure(lag, row, ground, &place, &url, time);
            let nobody = |time| lateness_of_nobody_p99_us(rate, time, place.core);
            play(rounds, rng, mine, |time| nobody(time).ok_or(Error::Rounds))
        }
        Figure::Alone(figure) => {
            let place = Place::new(ground, Way::Plain)?;
            let url = place.url(Way::Plain, "/hello.txt");
            repeat(rounds, |time| alone::measure(figure, row, ground, &place, &url, time))
        }
        Figure::Profile(figure) => profile::hold(figure, ground, rounds, rng),
    }
}

/// A server on one core, and another core for clients.
pub struct Place {
    server: Loaded,
    pub core: Option<usize>,
}

enum Loaded {
    Nginx(Server),
    Null(NullServer),
}

impl Place {
    fn new(ground: &Ground, way: Way) -> Result<Self, Error> {
        let (first, last) = two_cores()?;
        let server = match way {
            Way::Null => Loaded::Null(null_server(first)?),
            _ => {
                let server = ground.start(Kind::Loaded, Some(first))?;
                server.await_answer("/hello.txt")?;
                Loaded::Nginx(server)
            }
        };
        Ok(Self { server, core: Some(last) })
    }

    fn url(&self, way: Way, path: &str) -> String {
        match &self.server {
            Loaded::Nginx(server) => server.url_of(way, path),
            Loaded::Null(server) => format!("http://{}{path}", server.address()),
        }
    }
}

fn two_cores() -> Result<(usize, usize), Error> {
    let cores = allowed_cores();
    let [first, .., last] = cores[..] else { return Err(Error::OneCore) };
    Ok((first, last))
}

/// Its thread stays on the core.
fn null_server(core: usize) -> Result<NullServer, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Null(error.to_string());
    let start = move || {
        pin_current_thread(&[core]).map_err(|error| wrong(&error))?;
        drom_load::null_server().map_err(|error| wrong(&error))
    };
    let started = std::thread::spawn(start).join();
    started.unwrap_or_else(|_| Err(Error::Null("it panicked".to_owned())))
}

/// Each answer sets a cookie, which the next request shows.
const USERS: &str = "\
[[step]]
url = 'URL'
capture = { item = { header = 'X-Item' } }

[[step]]
url = 'URL?item={{item}}'

[[step]]
url = 'URL?item={{item}}&last=1'
";

/// 16 at once; wrk counts answers.
const PIPELINE: &str = "\
init = function(args)
  local requests = {}
  for i = 1, 16 do requests[i] = wrk.format() end
  all = table.concat(requests)
end
request = function() return all end
";

fn race_costs(
    row: &Row,
    race: Race,
    ground: &Ground,
    rounds: Rounds,
    rng: &mut Rng,
) -> Result<Outcome, Error> {
    let place = Place::new(ground, race.way)?;
    let url = place.url(race.way, race.path);
    let script = ground.write("pipeline.lua", PIPELINE)?;
    let job = |time| cost::Race {
        url: &url,
        connections: row.connections,
        work: race.handshakes.map_or(Work::For(time), Work::Handshakes),
        core: place.core.filter(|_| !race.every_core),
        script: script.as_ref(),
    };
    let mine = |time| {
        let flags: Vec<&str> = match race.handshakes {
            Some(_) => race.flags.iter().copied().chain(["--no-keepalive"]).collect(),
            None => race.flags.to_vec(),
        };
        cost::drom(&ground.drom, job(time), &flags).map(cost::Spent::requests_per_cpu_s)
    };
    let other = |time| cost::peer(race.peer, job(time)).map(cost::Spent::requests_per_cpu_s);
    play(rounds, rng, mine, other)
}

/// Users of three steps with a jar of cookies and a capture, and requests for the same page, both
/// with `drom load`.
fn race_users(
    row: &Row,
    path: &str,
    ground: &Ground,
    rounds: Rounds,
    rng: &mut Rng,
) -> Result<Outcome, Error> {
    let place = Place::new(ground, Way::Plain)?;
    let url = place.url(Way::Plain, path);
    let scenario = ground.write("users.toml", &USERS.replace("URL", &url))?;
    let job = |what, time| cost::Race {
        url: what,
        connections: row.connections,
        work: Work::For(time),
        core: place.core,
        script: "".as_ref(),
    };
    let of = |what, time| {
        cost::drom(&ground.drom, job(what, time), &[]).map(cost::Spent::requests_per_cpu_s)
    };
    play(rounds, rng, |time| of(&scenario, time), |time| of(&url, time))
}

fn race_schedules(
    row: &Row,
    rate: u32,
    ground: &Ground,
    rounds: Rounds,
    rng: &mut Rng,
) -> Result<Outcome, Error> {
    let (first, last) = two_cores()?;
    let arrivals = Arrivals::start(first)?;
    let url = arrivals.url();
    let job = |time| cost::Race {
        url: &url,
        connections: row.connections,
        work: Work::For(time),
        core: Some(last),
        script: "".as_ref(),
    };
    let seen = || lateness_p99_us(&arrivals.take_ns(), rate).ok_or(Error::Rounds);
    let mine = |time| {
        cost::drom_document(&ground.drom, job(time), &["--rate", &rate.to_string()])?;
        seen()
    };
    let other = |time| {
        cost::oha_at(job(time), rate)?;
        seen()
    };
    play(rounds, rng, mine, other)
}

/// The figure of one alone, round by round.
pub fn repeat(
    rounds: Rounds,
    mut drom: impl FnMut(Duration) -> Result<f64, Error>,
) -> Result<Outcome, Error> {
    let figures = (0..rounds.count).map(|_| drom(rounds.each)).collect::<Result<Vec<f64>, _>>()?;
    let ratio = Paired::new(&figures).ok_or(Error::Rounds)?.t_interval(0.95);
    let round = |drom| Round { drom, peer: 1.0, drom_first: true };
    Ok(Outcome { rounds: figures.into_iter().map(round).collect(), ratio })
}

#[expect(clippy::too_many_arguments, reason = "called twice, above; each says one thing")]
fn race_clients(
    row: &Row,
    ground: &Ground,
    server: &Server,
    side: Side,
    core: Option<usize>,
    rounds: Rounds,
    rng: &mut Rng,
    figure: impl Fn(Seen) -> f64 + Copy,
) -> Result<Outcome, Error> {
    let url = server.url(side.path);
    let job = |duration| Job { url: &url, connections: row.connections, duration, core };
    let mine = |duration| client::drom_load(&ground.drom, job(duration)).map(figure);
    let other = |duration| client::wrk(job(duration)).map(figure);
    play(rounds, rng, mine, other)
}

fn same_answer(mine: &Server, my: Side, other: &Server, their: Side) -> Result<(), Error> {
    if mine.await_answer(my.path)? == other.await_answer(their.path)? {
        return Ok(());
    }
    let (a, b) = (mine.url(my.path), other.url(their.path));
    Err(Error::Different(mine.name(), other.name(), a, b))
}

/// Both by turns, after a first time that is not counted.
pub fn play(
    rounds: Rounds,
    rng: &mut Rng,
    mut drom: impl FnMut(Duration) -> Result<f64, Error>,
    mut peer: impl FnMut(Duration) -> Result<f64, Error>,
) -> Result<Outcome, Error> {
    drom(rounds.warm_up)?;
    peer(rounds.warm_up)?;
    let mut played = Vec::new();
    for _ in 0..rounds.count {
        let drom_first = rng.below(2) == 0;
        let (mine, other);
        if drom_first {
            mine = drom(rounds.each)?;
            other = peer(rounds.each)?;
        } else {
            other = peer(rounds.each)?;
            mine = drom(rounds.each)?;
        }
        played.push(Round { drom: mine, peer: other, drom_first });
    }
    let ratio = ratio(&played).ok_or(Error::Rounds)?;
    Ok(Outcome { rounds: played, ratio })
}

/// Geometric mean of the rounds' ratios with its 95 % t interval.
fn ratio(rounds: &[Round]) -> Option<Estimate> {
    let logs: Vec<f64> = rounds.iter().map(|r| (r.drom / r.peer).ln()).collect();
    Some(Paired::new(&logs)?.t_interval(0.95).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_measures_both_and_the_ratio_is_theirs() {
        let rounds = Rounds { count: 6, each: Duration::ZERO, warm_up: Duration::ZERO };
        let outcome = play(rounds, &mut Rng::new(1), |_| Ok(300.0), |_| Ok(100.0));
        let outcome = outcome.unwrap();
        assert_eq!(outcome.rounds.len(), 6);
        assert!((outcome.ratio.centre - 3.0).abs() < 1e-9);
        assert!(outcome.rounds.iter().any(|r| r.drom_first));
        assert!(outcome.rounds.iter().any(|r| !r.drom_first));
    }

    #[test]
    fn one_that_is_alone_has_its_own_figure() {
        let rounds = Rounds { count: 4, each: Duration::ZERO, warm_up: Duration::ZERO };
        let outcome = repeat(rounds, |_| Ok(7.0)).unwrap();
        assert_eq!((outcome.rounds.len(), outcome.rounds[3].peer), (4, 1.0));
        assert!((outcome.ratio.centre - 7.0).abs() < 1e-9);
    }

    #[test]
    fn one_round_has_no_interval() {
        assert!(ratio(&[Round { drom: 1.0, peer: 1.0, drom_first: true }]).is_none());
    }
}
