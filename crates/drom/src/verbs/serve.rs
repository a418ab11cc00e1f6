//! `drom serve`.

use crate::exit::Exit;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Exit {
    eprintln!("drom serve: not built yet");
    Exit::Failed
}
