//! The command line: every verb with its flags. What clap holds of them is the catalogue that
//! `--help`, the manual, the completions and the reference in docs/ are written from.

use clap::{
    Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};

use crate::{
    exit::{self, Exit},
    say, verbs,
};

/// Run, race and explain Perl web code.
#[derive(Parser)]
#[command(name = "drom", version, arg_required_else_help = true)]
#[command(after_help = exit::help("", ""))]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Serve(verbs::serve::Args),
    Load(Box<verbs::load::Args>),
    Check(Box<verbs::check::Args>),
    Record(Box<verbs::record::Args>),
    Compare(verbs::compare::Args),
    Profile(verbs::profile::Args),
    Memory(verbs::memory::Args),
    Bench(verbs::bench::Args),
    Top(verbs::top::Args),
    Report(verbs::report::Args),
    Ab(verbs::ab::Args),
    #[command(name = "http_load")]
    HttpLoad(verbs::http_load::Args),
    Httperf(verbs::httperf::Args),
    Man(verbs::man::Args),
    Completions(verbs::completions::Args),
}

/// What was asked for; ends the process where that is help, or wrong.
pub fn parse() -> Verb {
    let asked = tree().try_get_matches().and_then(|found| Command::from_arg_matches(&found));
    asked.unwrap_or_else(|error| end(&without_detour(error))).verb
}

/// All verbs with all flags. `-h` and `--help` are the same: a line or two a flag; `drom help VERB`
/// has the rest.
pub fn tree() -> clap::Command {
    short_help(Command::command())
}

/// Help is a result: who asked for it must know when it did not come.
fn end(error: &clap::Error) -> ! {
    if error.use_stderr() {
        error.exit();
    }
    let said = say::result_by(|| error.print());
    let exit = said.map_or_else(
        |error| {
            say::line(format!("drom: cannot write to standard output: {error}"));
            Exit::Failed
        },
        |()| Exit::Done,
    );
    std::process::exit(exit as i32)
}

/// No value here begins with a dash: that one could be passed behind `--` is no help.
fn without_detour(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains(" as a value, use "));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

fn short_help(command: clap::Command) -> clap::Command {
    let own = command.get_name().to_owned();
    let command = command.mut_subcommands(|below| match own.as_str() {
        "drom" => short_help(below),
        _ => with_help(below, "Print help".to_owned()),
    });
    // The old tools read their own.
    if command.is_disable_help_flag_set() {
        return command;
    }
    let more = match command.get_name() {
        "drom" => "Print help; drom help VERB tells more of a verb".to_owned(),
        verb => format!("Print help; drom help {verb} tells more of each flag"),
    };
    with_help(command, more)
}

fn with_help(command: clap::Command, words: String) -> clap::Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help(words);
    command.disable_help_flag(true).next_help_heading(None).arg(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_finds_nothing_wrong_with_the_tree() {
        tree().debug_assert();
    }

    #[test]
    fn an_unknown_flag_is_no_value() {
        let words = |line: &[&str]| {
            let error = tree().try_get_matches_from(line).expect_err("no such flag");
            without_detour(error).to_string()
        };
        let said = words(&["drom", "load", "http://127.0.0.1/", "--bogus"]);
        assert!(said.contains("unexpected argument '--bogus'"), "{said}");
        assert!(!said.contains("as a value") && !said.contains("tip:"), "{said}");
        let said = words(&["drom", "load", "http://127.0.0.1/", "--rat", "5"]);
        assert!(said.contains("'--rate'") && !said.contains("as a value"), "{said}");
        let said = words(&["drom", "--rate", "5", "load"]);
        assert!(said.contains("'load --rate' exists"), "{said}");
    }

    #[test]
    fn every_flag_says_what_it_is_in_a_line_or_two() {
        let tree = tree();
        let mut verbs: Vec<_> = tree.get_subcommands().collect();
        while let Some(verb) = verbs.pop() {
            verbs.extend(verb.get_subcommands());
            for arg in verb.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let (verb, name) = (verb.get_name(), arg.get_id());
                assert!((5..=120).contains(&help.len()), "{verb} {name}: {help:?}");
                assert!(!help.ends_with('.'), "{verb} {name}: {help:?}");
            }
        }
    }
}
