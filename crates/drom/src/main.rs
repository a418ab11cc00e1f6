//! `drom`: runs, races and explains Perl web code. This file is one match over verbs; their flags
//! are in `cli.rs`, and each verb has a file of its own.

mod cli;
mod exit;
mod reference;
mod say;
mod verbs;

use std::{ffi::OsString, path::Path, process::ExitCode};

use cli::Verb;

fn main() -> ExitCode {
    if let Some(ended) = old_tool() {
        return ended;
    }
    match cli::parse() {
        Verb::Serve(args) => verbs::serve::run(args).into(),
        Verb::Load(args) => verbs::load::run(&args).into(),
        Verb::Check(args) => verbs::check::run(&args).into(),
        Verb::Record(args) => verbs::record::run(&args).into(),
        Verb::Compare(args) => verbs::compare::run(args).into(),
        Verb::Profile(args) => verbs::profile::run(&args),
        Verb::Memory(args) => verbs::memory::run(&args),
        Verb::Bench(args) => verbs::bench::run(&args).into(),
        Verb::Top(args) => verbs::top::run(&args).into(),
        Verb::Report(args) => verbs::report::run(args).into(),
        Verb::Ab(args) => verbs::ab::run(args.words),
        Verb::HttpLoad(args) => verbs::http_load::run(args.words),
        Verb::Httperf(args) => verbs::httperf::run(args.words),
        Verb::Man(args) => verbs::man::run(&args).into(),
        Verb::Completions(args) => verbs::completions::run(&args).into(),
    }
}

/// A link of an old tool's name to this program is that tool.
fn old_tool() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let called = words.next()?;
    let run: fn(Vec<OsString>) -> ExitCode = match Path::new(&called).file_name()?.to_str()? {
        "ab" => verbs::ab::run,
        "http_load" => verbs::http_load::run,
        "httperf" => verbs::httperf::run,
        _ => return None,
    };
    Some(run(words.collect()))
}
