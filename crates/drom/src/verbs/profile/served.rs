//! `drom profile --url`: what the workers of a Drom server on this machine do for a page, while it
//! is asked for.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use drom_load::{Address, Outcome, Plan, Stop, Target};
use drom_observe::{all_processes, holds_one, listening_on};
use drom_profile::{Ended, Family};
use drom_report::format::number_of;
use drom_serve::scoreboard::view::Window;

use super::{Args, Failure, Watch, seen, tell, watch, watch_interrupts};
use crate::{exit::Exit, say};

pub const DURATION: Duration = Duration::from_secs(10);

pub fn run(args: &Args, url: &str) -> Result<ExitCode, Failure> {
    let target = Target::resolve(url).map_err(Failure::of)?;
    let (master, window) = server(&target).map_err(Failure::of)?;
    let stop = watch_interrupts();
    let length = args.duration.unwrap_or(DURATION);
    let mut family = Family::of_pool(args.clock.into(), move || at_work(&window, master));
    let watch = Watch { duration: Some(length), ..watch(args) };
    let (ended, answered) =
        while_asked(target, args.connections, length, || watch.run(&mut family, stop, |_| {}));
    let profile = seen(family);
    say::line(format!("drom profile: {}", told(answered?)));
    tell(args, &profile, "/".as_ref())?;
    Ok(if ended? == Ended::Stopped { Exit::Interrupted } else { Exit::Done }.into())
}

/// Its master, and what tells of its workers.
pub fn server(target: &Target) -> Result<(i32, Window), String> {
    let Address::Tcp(address) = &target.address else {
        return Err("a server is found by its port: a Unix socket has none".to_owned());
    };
    let sockets = listening_on(address.port());
    let masters = all_processes().into_iter().filter(|stat| stat.command.starts_with("drom"));
    let mut refused = None;
    for pid in masters.map(|stat| stat.pid) {
        match Window::open(pid) {
            Ok(Some(window)) if holds_one(pid, &sockets) => return Ok((pid, window)),
            Ok(_) => {}
            Err(error) => refused = Some(error.to_string()),
        }
    }
    let port = address.port();
    Err(refused.unwrap_or_else(|| {
        format!("no Drom server of this machine listens on port {port}: --pid profiles others")
    }))
}

/// Workers in which Perl runs now.
fn at_work(window: &Window, master: i32) -> Vec<i32> {
    let view = window.look(master).ok();
    let workers = view.into_iter().flat_map(|view| view.workers);
    workers.filter(|worker| worker.running.is_some()).map(|worker| worker.pid).collect()
}

/// Asks as long as the work lasts, and no longer than so long. What came of both.
pub fn while_asked<R>(
    target: Target,
    connections: u32,
    length: Duration,
    work: impl FnOnce() -> R,
) -> (R, Result<Outcome, Failure>) {
    let plan = Plan { connections, stop: Stop::After(length), ..Plan::get(target) };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| drom_load::run(&plan, &is_over, &mut |_| {}));
        let done = work();
        is_over.store(true, Relaxed);
        let answered = asking.join().map(|answered| answered.map_err(Failure::of));
        (done, answered.unwrap_or_else(|_| Err(Failure::of("the requests came to nothing"))))
    })
}

pub fn told(outcome: Outcome) -> String {
    let Outcome { ok, failed, .. } = outcome;
    format!("{} answered, {failed} failed", number_of(ok as usize, "request"))
}
