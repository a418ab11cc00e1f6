//! `drom profile --exact`: runs a script on a perl that counts (Devel::Drom), and tells the counts.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::Path,
    process::{Command, ExitCode},
};

use drom_perl::write_counter;
use drom_profile::read;

use super::{Args, Failure, passed_on, spawn, tell, wait};
use crate::exit::Exit;

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.duration.is_some() {
        let message = "a script is counted to its end: -d is for --pid and --url".to_owned();
        return Err(Failure { message, exit: Exit::Usage });
    }
    // What the module has loaded it removes itself; the rest goes away with this.
    let scratch = tempfile::Builder::new()
        .prefix("drom-")
        .tempdir()
        .map_err(|error| Failure::of(format!("no folder for the counts can be made: {error}")))?;
    let perl = scratch.path().join("perl");
    write_counter(&perl)
        .map_err(Failure::of)?
        .map_err(|error| Failure::of(format!("the counter cannot be written: {error}")))?;
    let counts = scratch.path().join("counts");
    // Ctrl-C is for the script; what it has counted by then is told.
    let _ = super::watch_interrupts();
    let mut child = spawn(&mut command(args, &perl, &counts))?;
    let status = wait(&mut child)?;
    match fs::read(&counts) {
        Ok(bytes) => {
            let (profile, _) = read(&bytes)
                .map_err(|error| Failure::of(format!("the counts are wrong: {error}")))?;
            tell(args, &profile, &env::current_dir().unwrap_or_default())?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => crate::say::line(
            "drom profile: nothing was counted: the script ended by exec, _exit or a signal, or \
             did not begin",
        ),
        Err(error) => return Err(Failure::of(format!("the counts cannot be read: {error}"))),
    }
    Ok(passed_on(status))
}

fn command(args: &Args, perl: &Path, counts: &Path) -> Command {
    let mut flag = OsString::from("-d:Drom=");
    flag.push(counts);
    let mut include = OsString::from("-I");
    include.push(perl);
    let mut command = Command::new("perl");
    command.arg(include).arg(flag).env("DROM_EXACT", perl).args(&args.script);
    command
}
