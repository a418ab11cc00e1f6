//! `drom completions`: what a shell completes on a command line of drom, written from the flags.

use clap_complete::Shell;

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

pub fn run(args: &Args) -> Exit {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut cli::tree(), "drom", &mut out);
    match say::result(&String::from_utf8_lossy(&out)) {
        Ok(()) => Exit::Done,
        Err(error) => {
            say::line(format!("drom completions: {error}"));
            Exit::Failed
        }
    }
}
