//! `drom load`.

use crate::exit::Exit;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Exit {
    eprintln!("drom load: not built yet");
    Exit::Failed
}
