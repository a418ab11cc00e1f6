//! `drom profile --exact`: runs a script on a perl that counts (Devel::Drom), and tells the counts.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use drom_perl::write_counter;
use drom_profile::read;

use super::{Args, Failure, passed_on, tell, wait};
use crate::exit::Exit;

/// A folder that goes away. What the module has loaded it removes itself.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        let mut name = env::temp_dir().join("drom-XXXXXX").into_os_string().into_vec();
        name.push(0);
        // SAFETY: the name ends with a zero and is written in place, within its length.
        let made = unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) };
        if made.is_null() {
            return Err(io::Error::last_os_error());
        }
        name.pop();
        Ok(Self(PathBuf::from(OsString::from_vec(name))))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let failed = |message: String| Failure { message, exit: Exit::Failed };
    let scratch = Scratch::new()
        .map_err(|error| failed(format!("no folder for the counts can be made: {error}")))?;
    let perl = scratch.0.join("perl");
    write_counter(&perl)
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(format!("the counter cannot be written: {error}")))?;
    let counts = scratch.0.join("counts");
    // Ctrl-C is for the script; what it has counted by then is told.
    let _ = super::watch_interrupts();
    let mut child = command(args, &perl, &counts)
        .spawn()
        .map_err(|error| failed(format!("perl cannot be started: {error}; is it in PATH?")))?;
    let status = wait(&mut child)?;
    match fs::read(&counts) {
        Ok(bytes) => {
            let (profile, _) = read(&String::from_utf8_lossy(&bytes))
                .map_err(|error| failed(format!("the counts are wrong: {error}")))?;
            tell(args, &profile, &env::current_dir().unwrap_or_default())?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => crate::say::line(
            "drom profile: nothing was counted: the script ended by exec, _exit or a signal, or \
             did not begin",
        ),
        Err(error) => return Err(failed(format!("the counts cannot be read: {error}"))),
    }
    Ok(passed_on(status))
}

fn command(args: &Args, perl: &Path, counts: &Path) -> Command {
    let mut flag = OsString::from("-d:Drom=");
    flag.push(counts);
    let mut include = OsString::from("-I");
    include.push(perl);
    let mut command = Command::new("perl");
    command
        .arg(include)
        .arg(flag)
        .env("DROM_EXACT", OsString::from_vec(perl.as_os_str().as_bytes().to_vec()));
    command.args(&args.script);
    command
}
