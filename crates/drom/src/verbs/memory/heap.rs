//! `drom memory --heap`: what is inside a perl.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::{Footprint, clock, lives};
use drom_profile::heap::{Books, Grown, Heap, Inventory, Line, Ops, Value, grown};
use drom_serve::inspection::ask::Copy;

use super::{
    Args, heap_json, heap_text,
    held::{Held, What},
    write_report,
};
use crate::{
    exit::Exit,
    say,
    verbs::{load::watch_interrupts, profile::passed_on},
};

/// So often it is looked whether somebody asked for an end.
const NAP: Duration = Duration::from_millis(50);

/// What there is to tell.
pub struct Told<'a> {
    pub name: &'a str,
    pub rows: usize,
    pub package: Option<&'a str>,
    pub books: &'a Books,
    pub pause_s: Option<f64>,
    pub inventory: &'a Inventory,
    pub values: Vec<Value>,
    /// The sub that was asked for: its place in the inventory, lines and operators.
    pub sub: Option<(usize, Vec<Line>, Vec<Ops>)>,
    /// Since the first of two looks, so many seconds ago.
    pub grown: Option<(f64, Vec<Grown>)>,
}

pub fn run(args: &Args) -> Result<ExitCode, String> {
    match (args.pid, &args.module) {
        (Some(pid), _) => attached(args, pid),
        (None, Some(module)) => module_alone(args, module),
        (None, None) => script(args),
    }
}

/// Once, or twice where that was asked for; what ends between the two is told as it was.
fn attached(args: &Args, pid: i32) -> Result<ExitCode, String> {
    let stop = watch_interrupts();
    let name = format!("process {pid}");
    let first = look(pid)?;
    let Some(length) = args.duration else {
        match args.value {
            Some(address) => tell_value(args, &first, address)?,
            None => tell(args, &name, &first, None)?,
        }
        return Ok(Exit::Done.into());
    };
    let (before, began_ns) = (first.inventory(), clock::monotonic_ns());
    let program = program(pid);
    rest(length, stop, pid);
    match look(pid) {
        Ok(second) if self::program(pid) == program => {
            drop(first);
            tell(args, &name, &second, Some((before, began_ns)))?;
        }
        ended => {
            let why = ended.err().unwrap_or_else(|| format!("{name} runs another program now"));
            say::line(format!("drom memory: {why}; this is the first look"));
            tell(args, &name, &first, None)?;
            return Ok(Exit::Failed.into());
        }
    }
    Ok(if stop.load(Relaxed) { Exit::Interrupted } else { Exit::Done }.into())
}

fn program(pid: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

fn look(pid: i32) -> Result<Heap, String> {
    // Of who has no memory at all it is known why.
    Footprint::of(pid).map_err(|error| error.to_string())?;
    // A worker of a Drom server makes a copy of itself, sooner than it could be read.
    if let Ok(copy) = Copy::of(pid)
        && let Ok(heap) = Heap::of(copy.pid)
    {
        return Ok(heap.of_copy(copy.pause));
    }
    Heap::of(pid).map_err(|error| error.to_string())
}

/// Or until it ends.
fn rest(length: Duration, stop: &AtomicBool, pid: i32) {
    let end_ns = clock::monotonic_ns().saturating_add(length.as_nanos() as u64);
    loop {
        let left = Duration::from_nanos(end_ns.saturating_sub(clock::monotonic_ns()));
        if left.is_zero() || stop.load(Relaxed) || !lives(pid) {
            return;
        }
        clock::sleep(left.min(NAP));
    }
}

fn module_alone(args: &Args, module: &str) -> Result<ExitCode, String> {
    let stop = watch_interrupts();
    let mut held = Held::start(&What::Module(module))?;
    let heap = if held.at_end(stop) { Some(look(held.pid())) } else { None };
    let status = held.end()?;
    let Some(heap) = heap.filter(|_| status.success()) else {
        return Err(format!("{module} cannot be loaded, or ended the perl that did it"));
    };
    tell(args, &format!("perl with {module}"), &heap?, None)?;
    Ok(Exit::Done.into())
}

/// Whatever becomes of the look, the script has its end.
fn script(args: &Args) -> Result<ExitCode, String> {
    let stop = watch_interrupts();
    let mut held = Held::start(&What::Script(&args.script))?;
    let heap = if held.at_end(stop) { Some(look(held.pid())) } else { None };
    let status = held.end()?;
    match heap {
        Some(Ok(heap)) => tell(args, &args.script.join(" "), &heap, None)?,
        Some(Err(why)) => say::line(format!("drom memory: {why}")),
        None => say::line(
            "drom memory: its memory was not looked at: the script ended by exec, _exit or a \
             signal, or did not begin",
        ),
    }
    Ok(passed_on(status))
}

/// With or without `0x`, or as Perl prints a reference.
pub fn address(text: &str) -> Result<u64, String> {
    let digits = text.rsplit_once('(').map_or(text, |(_, rest)| rest.trim_end_matches(')'));
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    u64::from_str_radix(digits, 16).map_err(|_| "an address is HASH(0x55d0c8a1e2b8)".to_owned())
}

/// One value: what it takes, alone and with all that it leads to.
fn tell_value(args: &Args, heap: &Heap, address: u64) -> Result<(), String> {
    let nothing = || format!("there is no value of Perl's at {address:#x}");
    let node = heap.at(address).ok_or_else(nothing)?;
    let (value, total) = (heap.value(node), heap.total(node));
    write_report(args, |width| match args.json {
        true => heap_json::value(&value, total),
        false => heap_text::value(&value, total, width),
    })
}

fn tell(
    args: &Args,
    name: &str,
    heap: &Heap,
    first: Option<(Inventory, u64)>,
) -> Result<(), String> {
    let inventory = heap.inventory();
    let sub = args.sub.as_deref().map(|wanted| sub(heap, &inventory, wanted)).transpose()?;
    let package = args.package.as_deref();
    if let Some(package) = package.filter(|one| !inventory.packages.iter().any(|p| p.name == *one))
    {
        return Err(format!("there is no package {package} in {name}"));
    }
    let since = |(before, began_ns): (Inventory, u64)| {
        let passed_s = (clock::monotonic_ns() - began_ns) as f64 / 1e9;
        (passed_s, grown(&before, &inventory))
    };
    let told = Told {
        name,
        rows: args.rows,
        package,
        books: heap.books(),
        pause_s: heap.pause().map(|pause| pause.as_secs_f64()),
        values: heap.largest(args.rows),
        sub,
        grown: first.map(since),
        inventory: &inventory,
    };
    write_report(args, |width| match args.json {
        true => heap_json::render(&told),
        false => heap_text::render(&told, width),
    })
}

fn sub(
    heap: &Heap,
    inventory: &Inventory,
    wanted: &str,
) -> Result<(usize, Vec<Line>, Vec<Ops>), String> {
    let place = inventory.subs.iter().position(|sub| *sub.name == *wanted);
    let Some(place) = place else {
        let names = inventory.subs.iter().map(|sub| &*sub.name);
        let near = names.map(|name| (strsim::damerau_levenshtein(name, wanted), name)).min();
        let near = near.filter(|(far, _)| *far <= 3);
        let hint = near.map_or(String::new(), |(_, name)| format!("; there is {name}"));
        return Err(format!("there is no sub {wanted}{hint}"));
    };
    let (lines, ops) = heap.lines(inventory.subs[place].node);
    Ok((place, lines, ops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_perl_prints_them() {
        let read = ["HASH(0x1f0)", "0x1f0", "1f0", "My::Class=ARRAY(0x1f0)"].map(address);
        assert!(read.iter().all(|read| *read == Ok(0x1f0)), "{read:?}");
        assert!(["", "HASH", "HASH()", "x(0x)"].iter().all(|text| address(text).is_err()));
    }
}
