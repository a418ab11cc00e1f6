//! `drom profile --url`: what the workers of a Drom server on this machine do for a page, while it
//! is asked for.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
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
    let failed = |message: String| Failure { message, exit: Exit::Failed };
    let target = Target::resolve(url).map_err(|error| failed(error.to_string()))?;
    let (master, window) = server(&target).map_err(failed)?;
    let stop = watch_interrupts();
    let length = args.duration.unwrap_or(DURATION);
    let is_over = Arc::new(AtomicBool::new(false));
    let asking = ask(target, args.connections, length, Arc::clone(&is_over));
    let mut family = Family::of_pool(args.clock.into(), move || at_work(&window, master));
    let watch = Watch { duration: Some(length), ..watch(args) };
    let ended = watch.run(&mut family, stop, |_| {});
    is_over.store(true, Relaxed);
    let answered = asking.join().unwrap_or_else(|_| Err("the requests came to nothing".to_owned()));
    let profile = seen(family);
    say::line(format!("drom profile: {}", told(answered.map_err(failed)?)));
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

pub fn ask(
    target: Target,
    connections: u32,
    length: Duration,
    is_over: Arc<AtomicBool>,
) -> thread::JoinHandle<Result<Outcome, String>> {
    let plan = Plan { connections, stop: Stop::After(length), ..Plan::get(target) };
    thread::spawn(move || {
        drom_load::run(&plan, &is_over, &mut |_| {}).map_err(|error| error.to_string())
    })
}

pub fn told(outcome: Outcome) -> String {
    let Outcome { ok, failed, .. } = outcome;
    format!("{} answered, {failed} failed", number_of(ok as usize, "request"))
}
