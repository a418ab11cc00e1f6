//! Runs a plan: preflight, then randomised complete blocks on fresh servers, until Stein's rule or
//! the budget says enough. The central noun is the block; one that was interrupted, or in which a
//! server failed, is dropped whole. The schedule never looks at a result: order comes from the
//! seed, length from the pilot's spread.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use drom_load::ErrorKind;
use drom_observe::{Counters, Process};
use drom_report::format::number_of;
use drom_stats::{Latency, Rng, blocks_needed, sd};
use drom_store::{
    Block, Dropped, End, Flag, LoadFacts, Manifest, SCHEMA, Skipped, Slice, Start, Variant,
};

mod family;
mod learn;

use self::{
    family::{Family, cpu_s, worker_memory},
    learn::key,
};
use crate::{
    Error,
    analyse::differences,
    answers::{Known, checked},
    checks::{self, Observed},
    failures::Failures,
    plan::{Contestant, Group, Mode, Plan, settle_s},
    world::{Ceiling, NotReady, Order, Reply, ServerId, World},
};

/// Where finished blocks and news go.
pub trait Sink {
    fn begin(&mut self, manifest: &Manifest) -> Result<(), Error>;
    fn block(&mut self, block: &Block, latencies: &[Latency]) -> Result<(), Error>;
    fn dropped(&mut self, dropped: &Dropped) -> Result<(), Error>;
    fn progress(&mut self, progress: &Progress<'_>);
}

/// News for whoever waits.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    Preflight {
        what: String,
    },
    Skipped {
        variant: &'a str,
        reason: &'a str,
    },
    Slice {
        group: &'a str,
        block: usize,
        of: usize,
        variant: &'a str,
        rps: f64,
        flags: &'a [Flag],
    },
    Block {
        group: &'a str,
        block: usize,
        of: usize,
        elapsed_s: f64,
    },
    /// It does not count; it is measured again.
    Dropped {
        dropped: &'a Dropped,
        of: usize,
    },
    /// The pilot is done: so many blocks are wanted, for so small an effect.
    Planned {
        group: &'a str,
        blocks: usize,
        wanted: usize,
    },
}

/// Runs the whole experiment. What is finished is in the sink whatever is returned.
pub fn run(
    plan: &Plan,
    seed: u64,
    tool: &str,
    world: &mut dyn World,
    sink: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<End, Error> {
    let begin_s = world.now_s();
    let mut groups = plan.groups.clone();
    let skipped = skip_missing(&mut groups, sink)?;
    let mut experiment = Experiment {
        plan,
        world,
        sink,
        stop,
        rng: Rng::new(seed),
        begin_s,
        ceilings: BTreeMap::new(),
        answers: BTreeMap::new(),
        slices: 0,
        done: BTreeMap::new(),
        failures: Failures::new(plan.blocks.min),
    };
    let manifest = experiment.preflight(&groups, seed, tool, skipped)?;
    if !experiment.stopped() {
        experiment.sink.begin(&manifest)?;
    }
    let (failed, reason) = experiment.all_blocks(&groups, &manifest)?;
    let interrupted = experiment.stopped();
    let duration_s = experiment.elapsed_s();
    Ok(End { interrupted, failed: failed && !interrupted, duration_s, reason })
}

struct Experiment<'a> {
    plan: &'a Plan,
    world: &'a mut dyn World,
    sink: &'a mut dyn Sink,
    stop: &'a AtomicBool,
    rng: Rng,
    begin_s: f64,
    /// By number of connections.
    ceilings: BTreeMap<u32, f64>,
    /// By group and variant; the A/A pair has one entry.
    answers: BTreeMap<(String, String), Known>,
    slices: usize,
    done: BTreeMap<String, Vec<Block>>,
    failures: Failures,
}

/// A server of a block and the contestants that live on it.
struct Running {
    server: ServerId,
    key: String,
    family: Family,
    /// By contestant: what it answered before the first load.
    replies: BTreeMap<String, Reply>,
    pss_after_warmup: u64,
}

impl Experiment<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn elapsed_s(&self) -> f64 {
        self.world.now_s() - self.begin_s
    }

    fn news(&mut self, what: impl Into<String>) {
        self.sink.progress(&Progress::Preflight { what: what.into() });
    }

    fn preflight(
        &mut self,
        groups: &[Group],
        seed: u64,
        tool: &str,
        skipped: Vec<Skipped>,
    ) -> Result<Manifest, Error> {
        let flags = self.other_load();
        let mut told = Vec::new();
        for group in groups {
            if self.stopped() {
                break;
            }
            self.learn_answers(group)?;
            told.push(self.tell_group(group));
        }
        Ok(Manifest {
            schema: SCHEMA,
            tool: tool.to_owned(),
            name: self.plan.name.clone(),
            title: self.plan.title.clone(),
            started_unix_s: self.world.wall_s() as u64,
            seed,
            quick: self.plan.quick,
            mode: self.plan.mode.word().to_owned(),
            placement: self.world.placement(),
            effect: self.plan.effect,
            budget_s: self.plan.budget_s,
            pilot_blocks: self.plan.blocks.min,
            load: load_facts(self.plan),
            client_ceiling_rps: self.ceilings.values().copied().reduce(f64::min),
            machine: self.world.record(),
            groups: told,
            skipped,
            flags,
            plan_toml: self.plan.source.clone(),
        })
    }

    /// Nothing of ours runs yet: whoever uses the CPU is a stranger.
    fn other_load(&mut self) -> Vec<Flag> {
        self.news("looking for other load on this machine");
        let (before, own) = (self.world.counters(), self.world.client_cpu_s());
        self.world.sleep(Duration::from_millis(500));
        let machine = self.world.counters().since(&before);
        let foreign = machine.busy_s - (self.world.client_cpu_s() - own);
        let share = foreign / machine.total_s.max(1e-9);
        if machine.total_s <= 0.0 || share <= 0.05 {
            return Vec::new();
        }
        let busy = drom_report::format::percent_over(share);
        vec![checks::flag("P1", format!("{busy} % of the machine is busy already"))]
    }

    fn measure_ceiling(&mut self, connections: u32, body_bytes: u64) -> Result<(), Error> {
        if self.ceilings.contains_key(&connections) || self.stopped() {
            return Ok(());
        }
        self.news(format!(
            "measuring what the client can do with {}",
            number_of(connections as usize, "connection")
        ));
        let order = Ceiling { connections, window: Duration::from_millis(500), body_bytes };
        let rps = self
            .world
            .ceiling_rps(&order, self.stop)
            .map_err(|reason| Error::Load { variant: "null server".to_owned(), reason })?;
        self.ceilings.insert(connections, rps);
        Ok(())
    }

    fn tell_group(&self, group: &Group) -> drom_store::Group {
        let tell = |contestant: &Contestant| Variant {
            name: contestant.name.clone(),
            is_control: contestant.is_control,
            path: contestant.request.path.clone(),
            command: contestant.launch.argv.join(" "),
            answer: self.answers.get(&key(group, contestant)).and_then(Known::answer),
        };
        drom_store::Group {
            name: group.name.clone(),
            baseline: group.baseline.clone(),
            connections: group.connections,
            variants: group.contestants.iter().map(tell).collect(),
        }
    }

    /// Returns whether it failed, and why it ended.
    fn all_blocks(
        &mut self,
        groups: &[Group],
        manifest: &Manifest,
    ) -> Result<(bool, String), Error> {
        let blocks = self.plan.blocks;
        let mut wanted: BTreeMap<&str, usize> =
            groups.iter().map(|group| (group.name.as_str(), blocks.min)).collect();
        let mut cost_s: BTreeMap<&str, f64> = BTreeMap::new();
        let (mut out_of_budget, mut at_work) = (false, true);
        while at_work {
            at_work = false;
            let mut order: Vec<&Group> = groups.iter().collect();
            self.rng.shuffle(&mut order);
            for group in order {
                let name = group.name.as_str();
                let (index, cost) = (self.finished(name), cost_s.get(name).copied());
                if index >= wanted[name] {
                    continue;
                }
                if index >= blocks.min
                    && self.elapsed_s() + cost.unwrap_or(0.0) > self.plan.budget_s
                {
                    out_of_budget = true;
                    continue;
                }
                at_work = true;
                let begin_s = self.elapsed_s();
                match self.block(index, group, wanted[name])? {
                    Fate::Stopped => return Ok((false, "stopped by Ctrl-C".to_owned())),
                    Fate::Hopeless(why) => return Ok((true, why)),
                    Fate::Dropped => continue,
                    Fate::Done => {}
                }
                let spent = self.elapsed_s() - begin_s;
                cost_s.insert(name, cost.map_or(spent, |cost| 0.7 * cost + 0.3 * spent));
                if index + 1 == blocks.min {
                    let told = manifest.groups.iter().find(|told| told.name == name);
                    wanted.insert(name, self.plan_the_rest(group, told));
                }
            }
        }
        Ok((false, why_it_ended(&wanted, blocks.max, out_of_budget).to_owned()))
    }

    fn finished(&self, group: &str) -> usize {
        self.done.get(group).map_or(0, Vec::len)
    }

    /// Stein: the pilot's widest spread decides how many blocks there will be.
    fn plan_the_rest(&mut self, group: &Group, told: Option<&drom_store::Group>) -> usize {
        let target = (1.0 + self.plan.effect).ln();
        let pilot = self.done.get(&group.name).map_or(&[][..], Vec::as_slice);
        let variants = told.iter().flat_map(|told| told.variants.iter().map(move |v| (*told, v)));
        let needed = variants
            .map(|(told, variant)| differences(pilot, told, &variant.name))
            .filter(|d| d.len() >= 2)
            .map(|d| blocks_needed(d.len(), sd(&d), target))
            .max();
        let needed = needed.unwrap_or(self.plan.blocks.min);
        let blocks = needed.clamp(self.plan.blocks.min, self.plan.blocks.max);
        let news = Progress::Planned { group: &group.name, blocks, wanted: needed };
        self.sink.progress(&news);
        blocks
    }

    fn block(&mut self, index: usize, group: &Group, of: usize) -> Result<Fate, Error> {
        let begin_s = self.elapsed_s();
        let mut running = Vec::new();
        let mut work =
            BlockWork { index, group, of, starts: vec![], slices: vec![], latencies: vec![] };
        let measured = match self.plan.mode {
            Mode::Interleave => self.interleave(&mut work, &mut running),
            Mode::Fresh => self.one_after_another(&mut work, &mut running),
        };
        // Whatever happened, no server outlives its block.
        running.iter().for_each(|on| self.world.ask_to_stop(on.server));
        running.iter().for_each(|on| self.world.stop(on.server));
        if self.stopped() {
            return Ok(Fate::Stopped);
        }
        if let Err(error) = measured {
            return self.drop_block(&work, begin_s, error);
        }
        let BlockWork { starts, slices, latencies, .. } = work;
        let end_s = self.elapsed_s();
        let block = Block { index, group: group.name.clone(), begin_s, end_s, starts, slices };
        self.sink.block(&block, &latencies)?;
        self.done.entry(group.name.clone()).or_default().push(block);
        self.failures.finished(&group.name);
        let news = Progress::Block { group: &group.name, block: index + 1, of, elapsed_s: end_s };
        self.sink.progress(&news);
        Ok(Fate::Done)
    }

    /// What a server did costs its block, which is measured again; anything else ends the run.
    fn drop_block(
        &mut self,
        work: &BlockWork<'_>,
        begin_s: f64,
        error: Error,
    ) -> Result<Fate, Error> {
        let Some((variant, reason)) = error.of_server() else { return Err(error) };
        let dropped = Dropped {
            block: work.index,
            group: work.group.name.clone(),
            begin_s,
            end_s: self.elapsed_s(),
            variant: variant.to_owned(),
            reason,
        };
        self.sink.dropped(&dropped)?;
        self.sink.progress(&Progress::Dropped { dropped: &dropped, of: work.of });
        let hopeless = self.failures.failed(&dropped.group, &dropped.variant);
        Ok(hopeless.map_or(Fate::Dropped, Fate::Hopeless))
    }

    fn interleave(
        &mut self,
        work: &mut BlockWork<'_>,
        running: &mut Vec<Running>,
    ) -> Result<(), Error> {
        let mut order: Vec<&Contestant> = work.group.contestants.iter().collect();
        self.rng.shuffle(&mut order);
        for contestant in &order {
            self.start_for(work, running, contestant)?;
        }
        for contestant in &order {
            self.look_at_answer(work.group, running, contestant);
        }
        for contestant in &order {
            self.warm_up(work.group, running, contestant)?;
        }
        for round in 0..self.plan.load.rounds {
            self.rng.shuffle(&mut order);
            for (position, contestant) in order.iter().enumerate() {
                self.slice(work, running, contestant, (round, position))?;
            }
        }
        Ok(())
    }

    fn one_after_another(
        &mut self,
        work: &mut BlockWork<'_>,
        running: &mut Vec<Running>,
    ) -> Result<(), Error> {
        let mut order: Vec<&Contestant> = work.group.contestants.iter().collect();
        self.rng.shuffle(&mut order);
        for (position, contestant) in order.into_iter().enumerate() {
            self.start_for(work, running, contestant)?;
            self.look_at_answer(work.group, running, contestant);
            self.warm_up(work.group, running, contestant)?;
            for round in 0..self.plan.load.rounds {
                self.slice(work, running, contestant, (round, position))?;
            }
            for server in running.drain(..) {
                self.world.stop(server.server);
            }
        }
        Ok(())
    }

    fn start(&mut self, contestant: &Contestant) -> Result<ServerId, Error> {
        let (variant, path) = (contestant.name.clone(), contestant.launch.ready_path.clone());
        let started = self.world.start(&contestant.launch, self.stop);
        started.map_err(|NotReady { reason, status }| match status {
            Some(_) => Error::Answer { variant, path, reason },
            None => Error::Start { variant, reason },
        })
    }

    fn start_for(
        &mut self,
        work: &mut BlockWork<'_>,
        running: &mut Vec<Running>,
        contestant: &Contestant,
    ) -> Result<(), Error> {
        if self.stopped() || running.iter().any(|r| r.key == contestant.server) {
            return Ok(());
        }
        let begin_s = self.elapsed_s();
        let started = self.start(contestant);
        if self.stopped() {
            // An interrupted start is no fault of the server.
            return started.map(|server| self.world.stop(server)).or(Ok(()));
        }
        let server = started?;
        let ready_s = self.elapsed_s() - begin_s;
        let found = self.world.processes(server);
        let family = Family::of(&found);
        let (variant, processes) = (contestant.name.clone(), family.len());
        work.starts.push(Start { variant, begin_s, ready_s, processes });
        let key = contestant.server.clone();
        running.push(Running {
            server,
            key,
            family,
            replies: BTreeMap::new(),
            pss_after_warmup: 0,
        });
        Ok(())
    }

    fn order<'c>(&self, group: &Group, who: &'c Contestant, on: &Running) -> Order<'c> {
        let known = self.answers.get(&key(group, who));
        Order {
            server: on.server,
            request: &who.request,
            connections: group.connections,
            settle: self.settle(),
            window: self.plan.load.slice,
            expect_body: known.and_then(|known| known.expect(on.replies.get(&who.name))),
        }
    }

    fn settle(&self) -> Duration {
        Duration::from_secs_f64(settle_s(self.plan.load.slice.as_secs_f64()))
    }

    fn warm_up(
        &mut self,
        group: &Group,
        running: &mut [Running],
        who: &Contestant,
    ) -> Result<(), Error> {
        let Some(place) = running.iter().position(|r| r.key == who.server) else { return Ok(()) };
        if self.stopped() || self.plan.load.warmup.is_zero() {
            return Ok(());
        }
        let mut order = self.order(group, who, &running[place]);
        order.window = self.plan.load.warmup;
        order.settle = Duration::ZERO;
        self.load(&order, who)?;
        let on = &mut running[place];
        on.family.meet(&self.world.processes(on.server));
        on.pss_after_warmup = on.family.pss(&self.world.pss_bytes(on.server));
        Ok(())
    }

    /// A server that ended meanwhile is told by its end, whatever the load has to say.
    fn load(&mut self, order: &Order<'_>, who: &Contestant) -> Result<drom_load::Outcome, Error> {
        let loaded = self.world.slice(order, self.stop);
        let cut = |outcome: &drom_load::Outcome| {
            let cut = [ErrorKind::Closed, ErrorKind::Connect];
            cut.iter().any(|kind| outcome.errors.contains_key(kind))
        };
        let mut ended = self.world.ended(order.server);
        if ended.is_none() && loaded.as_ref().map_or(true, cut) {
            // Connections go before the process does.
            self.world.sleep(GOING);
            ended = self.world.ended(order.server);
        }
        let variant = who.name.clone();
        match (ended, loaded) {
            (Some(reason), _) => Err(Error::Ended { variant, reason }),
            (None, loaded) => loaded.map_err(|reason| Error::Load { variant, reason }),
        }
    }

    /// A slice that was disturbed from outside is measured once more; both stay.
    fn slice(
        &mut self,
        work: &mut BlockWork<'_>,
        running: &mut [Running],
        who: &Contestant,
        place: (u32, usize),
    ) -> Result<(), Error> {
        let Some(server) = running.iter_mut().find(|r| r.key == who.server) else {
            return Ok(());
        };
        for attempt in 0..ATTEMPTS {
            if self.stopped() {
                return Ok(());
            }
            let (mut slice, latency) = self.measure(work.group, who, server)?;
            slice.id = format!("b{:03}-s{:05}", work.index, self.slices);
            self.slices += 1;
            (slice.round, slice.position, slice.attempt) = (place.0, place.1, attempt);
            let outside = slice.flags.iter().any(|f| checks::OUTSIDE.contains(&f.code.as_str()));
            let mistaken = self.was_mistaken(work.group, who, server, &slice);
            slice.used = !(outside && attempt == 0 || mistaken);
            self.sink.progress(&Progress::Slice {
                group: &work.group.name,
                block: work.index + 1,
                of: work.of,
                variant: &who.name,
                rps: slice.ok as f64 / slice.duration_s.max(1e-9),
                flags: &slice.flags,
            });
            let again = !slice.used;
            work.slices.push(slice);
            work.latencies.push(latency);
            if !again {
                break;
            }
        }
        Ok(())
    }

    fn measure(
        &mut self,
        group: &Group,
        who: &Contestant,
        on: &mut Running,
    ) -> Result<(Slice, Latency), Error> {
        let order = self.order(group, who, on);
        let before = self.look(on.server);
        let outcome = self.load(&order, who)?;
        let after = self.look(on.server);
        let server_cpu_s = (cpu_s(&after.processes) - cpu_s(&before.processes)).max(0.0);
        let seen = Observed {
            outcome: &outcome,
            connections: group.connections,
            expected: order.expect_body,
            machine: after.machine.since(&before.machine),
            server_cpu_s,
            client_cpu_s: after.client_cpu_s - before.client_cpu_s,
            elapsed_s: after.now_s - before.now_s,
            wall_s: after.wall_s - before.wall_s,
            deaths: on.family.deaths(&before.processes, &after.processes),
            ceiling_rps: self.ceilings.get(&group.connections).copied(),
        };
        let mut slice = told_slice(&seen, who, before.now_s - self.begin_s);
        slice.checked = checked(order.expect_body).to_owned();
        // CPU time was read around settling and window; the window has its share of it.
        slice.server_cpu_s *= outcome.duration.as_secs_f64() / seen.elapsed_s.max(1e-9);
        let pss = self.world.pss_bytes(on.server);
        slice.tree_pss_bytes = on.family.pss(&pss);
        (slice.workers, slice.worker_pss_bytes) =
            worker_memory(&before.processes, &after.processes, &pss);
        if on.pss_after_warmup > 0 {
            slice.flags.extend(checks::memory_growth(
                on.pss_after_warmup,
                slice.tree_pss_bytes,
                on.family.len(),
            ));
        }
        Ok((slice, outcome.waited().clone()))
    }

    fn look(&mut self, server: ServerId) -> Look {
        Look {
            processes: self.world.processes(server),
            machine: self.world.counters(),
            client_cpu_s: self.world.client_cpu_s(),
            now_s: self.world.now_s(),
            wall_s: self.world.wall_s(),
        }
    }
}

/// Once for what disturbed it, once each for a body and a length that turn out to vary.
const ATTEMPTS: u32 = 4;

/// How long a process may take to end after its connections.
const GOING: Duration = Duration::from_millis(100);

/// What became of a block.
enum Fate {
    Done,
    Dropped,
    /// Dropped, and the run ends: why.
    Hopeless(String),
    /// By Ctrl-C; it does not count.
    Stopped,
}

struct BlockWork<'a> {
    index: usize,
    group: &'a Group,
    of: usize,
    starts: Vec<Start>,
    slices: Vec<Slice>,
    latencies: Vec<Latency>,
}

struct Look {
    processes: Vec<Process>,
    machine: Counters,
    client_cpu_s: f64,
    now_s: f64,
    wall_s: f64,
}

fn skip_missing(groups: &mut [Group], sink: &mut dyn Sink) -> Result<Vec<Skipped>, Error> {
    let mut skipped: Vec<Skipped> = Vec::new();
    for group in groups {
        group.contestants.retain(|contestant| {
            let Some(missing) = contestant.requires.iter().find(|what| !is_there(what)) else {
                return true;
            };
            let reason = format!("needs {missing}, which is not installed here");
            if !skipped.iter().any(|s| s.variant == contestant.name) && !contestant.is_control {
                sink.progress(&Progress::Skipped { variant: &contestant.name, reason: &reason });
                skipped.push(Skipped { variant: contestant.name.clone(), reason });
            }
            false
        });
        let left = group.contestants.iter().filter(|c| !c.is_control).count();
        let has_baseline = group.contestants.iter().any(|c| c.name == group.baseline);
        if left < 2 || !has_baseline {
            let reasons: BTreeSet<&str> = skipped.iter().map(|s| s.reason.as_str()).collect();
            let reason = reasons.into_iter().collect::<Vec<_>>().join("; ");
            if !has_baseline {
                let baseline = group.baseline.clone();
                return Err(Error::NoBaseline { group: group.name.clone(), baseline, reason });
            }
            return Err(Error::NothingLeft { group: group.name.clone(), left, reason });
        }
    }
    Ok(skipped)
}

/// A file by its path, or a program in `PATH` (and where Debian keeps daemons).
pub(crate) fn is_there(what: &str) -> bool {
    if what.contains('/') {
        return std::path::Path::new(what).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders.filter(|f| !f.is_empty()).any(|f| std::path::Path::new(f).join(what).exists())
}

fn why_it_ended(wanted: &BTreeMap<&str, usize>, max: usize, out_of_budget: bool) -> &'static str {
    if out_of_budget {
        "the time budget is used up"
    } else if wanted.values().any(|&blocks| blocks >= max) {
        "the plan's most blocks are done"
    } else {
        "the pilot's spread asked for no more blocks"
    }
}

fn load_facts(plan: &Plan) -> LoadFacts {
    LoadFacts {
        connections: plan.load.connections,
        threads: plan.load.threads,
        slice_s: plan.load.slice.as_secs_f64(),
        warmup_s: plan.load.warmup.as_secs_f64(),
        rounds: plan.load.rounds,
        keepalive: plan.load.keepalive,
    }
}

fn told_slice(seen: &Observed<'_>, who: &Contestant, begin_s: f64) -> Slice {
    let outcome = seen.outcome;
    let errors = outcome.errors.iter().map(|(kind, n)| (kind.name().to_owned(), *n)).collect();
    Slice {
        variant: who.name.clone(),
        begin_s,
        duration_s: outcome.duration.as_secs_f64(),
        sent: outcome.sent,
        ok: outcome.ok,
        failed: outcome.failed,
        in_flight: outcome.in_flight,
        connected: outcome.connected,
        never_answered: checks::never_answered(outcome, seen.connections),
        status: outcome.status.clone(),
        errors,
        bytes_read: outcome.bytes_read,
        mean_ns: outcome.waited().mean_ns(),
        p99_ns: outcome.waited().quantile_ns(0.99),
        client_cpu_s: outcome.thread_cpu.iter().map(Duration::as_secs_f64).collect(),
        server_cpu_s: seen.server_cpu_s,
        steal_s: seen.machine.steal_s,
        foreign_cpu_s: checks::foreign_cpu_s(seen),
        throttled_s: seen.machine.throttled_s,
        listen_overflows: seen.machine.listen_overflows,
        flags: checks::of_slice(seen),
        pace: outcome.pace.iter().map(|rate| (10.0 * rate).round() / 10.0).collect(),
        ..Slice::default()
    }
}
