//! `drom compare`.

use crate::exit::Exit;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Exit {
    eprintln!("drom compare: not built yet");
    Exit::Failed
}
