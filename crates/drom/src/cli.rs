//! The command line: every verb with its flags. What clap holds of them is the catalogue that
//! `--help`, the manual, the completions and the reference in docs/ are written from.

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{exit, verbs};

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
    let asked = Command::from_arg_matches(&tree().get_matches());
    asked.unwrap_or_else(|error| error.exit()).verb
}

/// All verbs with all flags. `-h` and `--help` are the same: a line or two a flag; `drom help VERB`
/// has the rest.
pub fn tree() -> clap::Command {
    short_help(Command::command())
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
