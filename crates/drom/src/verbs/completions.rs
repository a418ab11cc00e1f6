//! `drom completions`: what a shell completes on a command line of drom, written from the flags.

use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use drom_classics::{ab, httperf};

use crate::{cli, exit::Exit, say};

/// Print what a shell needs to complete command lines
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  drom completions bash > ~/.local/share/bash-completion/completions/drom
  drom completions zsh > ~/.zfunc/_drom         with fpath+=~/.zfunc before compinit
  drom completions fish > ~/.config/fish/completions/drom.fish";

/// The old tools read their own words; a shell is told of those that it can complete. (http_load's
/// are long ones behind one dash.)
fn with_old_words(tree: Command) -> Command {
    let of_ab = ab::flags().map(|(name, has_value, doc)| {
        let (is_long, name) = (name.starts_with("--"), name.trim_start_matches('-'));
        let flag = word(name, has_value).help(doc);
        if is_long { flag.long(name) } else { flag.short(name.chars().next().unwrap_or('-')) }
    });
    let of_httperf = httperf::flags().map(|(name, has_value)| word(name, has_value).long(name));
    let tree = tree.mut_subcommand("ab", |ab| ab.args(of_ab));
    let no_version = |httperf: Command| httperf.disable_version_flag(true).args(of_httperf);
    tree.mut_subcommand("httperf", no_version)
}

fn word(name: &'static str, has_value: bool) -> Arg {
    let action = if has_value { ArgAction::Set } else { ArgAction::SetTrue };
    Arg::new(name).action(action)
}

pub fn run(args: &Args) -> Exit {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut with_old_words(cli::tree()), "drom", &mut out);
    match say::result(&String::from_utf8_lossy(&out)) {
        Ok(()) => Exit::Done,
        Err(error) => {
            say::line(format!("drom completions: {error}"));
            Exit::Failed
        }
    }
}
