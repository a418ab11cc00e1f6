//! `drom serve`: serves a folder, or what an Apache-style configuration file says.

use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use drom_observe::clock;
use drom_serve::{
    Heard,
    config::{Config, Options},
};

use crate::{
    exit::{self, Exit},
    say,
};

/// Serve Perl web code: CGI, PerlRun, Registry, mod_perl handlers, and files.
#[derive(clap::Args)]
#[command(after_help = exit::help("serve", EXAMPLES))]
pub struct Args {
    /// Folder to serve without a configuration: files, cgi-bin/ as CGI, perl/ as Registry
    #[arg(value_name = "DIR", conflicts_with = "file")]
    dir: Option<PathBuf>,
    /// Configuration file in Apache's language
    #[arg(short, long, value_name = "FILE")]
    #[arg(help_heading = "Configuration")]
    file: Option<PathBuf>,
    /// Address to listen on in place of every Listen (HOST:PORT or PORT); may be repeated
    #[arg(long, value_name = "ADDR", value_parser = address)]
    #[arg(help_heading = "Server")]
    listen: Vec<SocketAddr>,
    /// Define NAME for IfDefine and ${NAME}
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    #[arg(help_heading = "Configuration")]
    define: Vec<String>,
    /// Check the configuration, say what is wrong or that nothing is, and end
    #[arg(short = 't', long)]
    #[arg(help_heading = "Configuration")]
    test: bool,
    /// Unknown directives are warnings
    #[arg(long)]
    #[arg(help_heading = "Configuration")]
    lenient: bool,
    /// Tell the running server to load its configuration and Perl code again, and wait for the outcome
    #[arg(long, conflicts_with_all = ["test"])]
    #[arg(help_heading = "Server")]
    reload: bool,
    /// Write the server's process number to this file, in place of PidFile
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = "Server")]
    pid_file: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  drom serve site/                       files, site/cgi-bin and site/perl on 127.0.0.1:8080
  drom serve -f httpd.conf -t            is the configuration right?
  drom serve -f httpd.conf --listen 0.0.0.0:80
  drom serve -f httpd.conf --reload      load the new code; the old serves on if it is broken

Signals:
  HUP loads again, TERM and INT finish what runs and end";

/// How long `--reload` waits for the new code. Code that hangs is given up by then.
const RELOAD_WAIT: Duration = Duration::from_secs(70);
const LOOK: Duration = Duration::from_millis(20);
/// So many looks in a row for a file that is not there: the server could not make it.
const MISSED_MAX: u32 = 50;

const AS_ROOT: &str = "started by root, and no User is set: all scripts run as root";

pub fn run(args: Args) -> Exit {
    if args.dir.is_none() && args.file.is_none() {
        say::line("drom serve: name a folder to serve, or a configuration with -f FILE");
        return Exit::Usage;
    }
    let config = match read(&args, true) {
        Ok(config) => config,
        Err(text) => {
            say::line(text);
            return Exit::Usage;
        }
    };
    if args.test {
        return test(&config);
    }
    if args.reload {
        return reload(&config);
    }
    serve(args, config)
}

/// The configuration could be read. What else `httpd -t` looks at are the folders of the logs.
fn test(config: &Config) -> Exit {
    let missing = config.missing_log_folders();
    if missing.is_empty() {
        say::line("Syntax OK");
        return Exit::Done;
    }
    missing.iter().for_each(say::line);
    Exit::Usage
}

fn serve(args: Args, first: Config) -> Exit {
    // Standard error becomes the error log; who starts a server looks at the terminal.
    let terminal = std::io::stderr().as_fd().try_clone_to_owned().map(File::from).ok();
    let as_root = drom_serve::is_root() && first.server.user.is_none();
    let mut first = Some(first);
    let read_config = move || match first.take() {
        Some(config) => Ok(config),
        None => read(&args, false),
    };
    let mut announce = |addresses: &[SocketAddr]| {
        for address in addresses {
            // A server serves, whether anybody reads this or not.
            let _ = say::result(&format!("listening on http://{address}\n"));
        }
        if as_root {
            let line = drom_serve::warning(AS_ROOT);
            tell_both(&format!("{line}\n"), terminal.as_ref());
        }
    };
    match drom_serve::run(Box::new(read_config), &mut announce) {
        Ok(()) => Exit::Done,
        Err(e) => {
            tell_both(&format!("drom serve: {e}\n"), terminal.as_ref());
            match e {
                drom_serve::ServeError::Config(_) | drom_serve::ServeError::Identity(_) => {
                    Exit::Usage
                }
                _ => Exit::Failed,
            }
        }
    }
}

/// To standard error, and to what it was at the start when that is something else.
fn tell_both(text: &str, terminal: Option<&File>) {
    say::part(text);
    let Some(mut terminal) = terminal else { return };
    let place = |file: &File| file.metadata().map(|m| (m.dev(), m.ino())).ok();
    let now = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    if now.is_ok_and(|now| place(&now) != place(terminal)) {
        // A terminal that is gone needs no words.
        let _ = terminal.write_all(text.as_bytes());
    }
}

/// The configuration of the arguments. The error is what to show.
fn read(args: &Args, show_notices: bool) -> Result<Config, String> {
    let options = Options {
        defines: args.define.clone(),
        lenient: args.lenient,
        listen: args.listen.clone(),
    };
    let mut config = match (&args.file, &args.dir) {
        (Some(file), _) => from_file(file, &options, show_notices)?,
        (None, Some(dir)) => {
            let dir = std::fs::canonicalize(dir)
                .map_err(|e| format!("drom serve: {}: {e}", dir.display()))?;
            if !dir.is_dir() {
                return Err(format!("drom serve: {} is no folder", dir.display()));
            }
            Config::for_folder(&dir, &options)
        }
        (None, None) => return Err("drom serve: nothing to serve".to_owned()),
    };
    if let Some(path) = &args.pid_file {
        config.server.pid_file = Some(path.clone());
    }
    Ok(config)
}

fn from_file(file: &Path, options: &Options, show_notices: bool) -> Result<Config, String> {
    let (config, notices) = Config::from_file(file, options)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    if show_notices {
        notices.iter().for_each(say::line);
    }
    Ok(config)
}

/// Sends HUP to the process of the PidFile and waits for what it writes.
fn reload(config: &Config) -> Exit {
    let Some(pid_file) = &config.server.pid_file else {
        say::line("drom serve: --reload needs a PidFile in the configuration, or --pid-file");
        return Exit::Usage;
    };
    let pid = std::fs::read_to_string(pid_file).ok().and_then(|t| t.trim().parse::<i32>().ok());
    let Some(pid) = pid else {
        say::line(format!(
            "drom serve: no server runs here: {} cannot be read",
            pid_file.display()
        ));
        return Exit::Failed;
    };
    let asked_ns = clock::monotonic_ns();
    // SAFETY: no pointers.
    if unsafe { libc::kill(pid, libc::SIGHUP) } != 0 {
        say::line(format!("drom serve: process {pid}: {}", std::io::Error::last_os_error()));
        return Exit::Failed;
    }
    match outcome(pid_file, pid, asked_ns) {
        Ok(outcome) => tell(&outcome),
        Err(text) => {
            say::line(format!("drom serve: {text}"));
            Exit::Failed
        }
    }
}

/// What the server says of the first load that begins after it was asked for.
fn outcome(pid_file: &Path, pid: i32, asked_ns: u64) -> Result<String, String> {
    let until = clock::now() + RELOAD_WAIT;
    let mut missed = 0;
    while clock::now() < until {
        missed = match drom_serve::heard(pid_file, asked_ns) {
            Heard::Outcome(text) => return Ok(text),
            Heard::Nothing => 0,
            Heard::Nowhere => missed + 1,
        };
        // SAFETY: no pointers; signal 0 only asks.
        if unsafe { libc::kill(pid, 0) } != 0 {
            return Err(format!("the server (process {pid}) ended"));
        }
        if missed > MISSED_MAX {
            return Err("the server cannot write how it goes beside its PidFile; it is in the \
                error log"
                .to_owned());
        }
        clock::sleep(LOOK);
    }
    Err(format!("the server did not say within {} s how it went", RELOAD_WAIT.as_secs()))
}

fn tell(outcome: &str) -> Exit {
    let (first, rest) = outcome.split_once('\n').unwrap_or((outcome, ""));
    if first == "done" {
        say::line("reloaded");
        rest.lines().for_each(|warning| say::line(format!("warning: {warning}")));
        return Exit::Done;
    }
    say::line(format!("reload {outcome}"));
    Exit::Failed
}

/// `HOST:PORT` or a port alone, which means 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.bytes().all(|b| b.is_ascii_digit()) {
        format!("127.0.0.1:{text}")
    } else {
        text.replace("localhost:", "127.0.0.1:")
    };
    whole.parse().map_err(|_| format!("\"{text}\" is no address; write 127.0.0.1:8080 or 8080"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_local() {
        assert_eq!(address("8080"), Ok("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(address("localhost:81"), Ok("127.0.0.1:81".parse().unwrap()));
        assert!(address("nowhere").is_err());
    }
}
