//! `drom`: runs, races and explains Perl web code. This file is flags and one match over verbs;
//! each verb has a file of its own beside it.

mod exit;
mod say;
mod verbs;

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

/// Run, race and explain Perl web code.
#[derive(Parser)]
#[command(name = "drom", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Serve(verbs::serve::Args),
    Load(Box<verbs::load::Args>),
    Check(Box<verbs::check::Args>),
    Record(Box<verbs::record::Args>),
    Compare(verbs::compare::Args),
    Report(verbs::report::Args),
    Ab(verbs::ab::Args),
    #[command(name = "http_load")]
    HttpLoad(verbs::http_load::Args),
    Httperf(verbs::httperf::Args),
}

const EXIT_CODES: &str = "\
Exit status: 0 done; 1 failed; 2 wrong flags, plan or configuration; 3 measured, but the client was
the limit; 4 worse and 5 inconclusive (compare --gate); 6 measured, but a self-check makes the
numbers doubtful; 7 a variant answered wrongly, 8 one did not answer (compare); 9 a threshold was
not met (load --threshold) or a check failed (check); 130 stopped by Ctrl-C.";

fn main() -> ExitCode {
    if let Some(ended) = old_tool() {
        return ended;
    }
    let command = Command::parse();
    match command.verb {
        Verb::Serve(args) => verbs::serve::run(args).into(),
        Verb::Load(args) => verbs::load::run(&args).into(),
        Verb::Check(args) => verbs::check::run(&args).into(),
        Verb::Record(args) => verbs::record::run(&args).into(),
        Verb::Compare(args) => verbs::compare::run(args).into(),
        Verb::Report(args) => verbs::report::run(args).into(),
        Verb::Ab(args) => verbs::ab::run(args.words),
        Verb::HttpLoad(args) => verbs::http_load::run(args.words),
        Verb::Httperf(args) => verbs::httperf::run(args.words),
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
