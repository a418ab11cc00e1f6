//! What a generation of processes serves: the configuration and everything derived from it once.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    config::{Config, LogLevel, ServerTokens},
    http,
    log::{self, ErrorLine},
    map::Mapper,
};

/// One per generation; leaked, so that every request may point at it.
pub struct Site {
    pub config: Arc<Config>,
    pub mapper: Mapper,
    /// The `Server` header.
    pub server: String,
    pub limits: http::Limits,
    pub types: crate::files::Types,
    pub access_logs: Vec<AccessLog>,
    /// Where errors go; the file that standard error was pointed at.
    pub error_log_name: String,
}

/// One `CustomLog`: opened by the master, written line by line in append mode.
pub struct AccessLog {
    pub format: log::Format,
    pub file: std::fs::File,
}

impl Site {
    pub fn server_name(&self) -> &str {
        self.config.server.server_name.as_deref().unwrap_or("localhost")
    }

    pub fn logs(&self, level: LogLevel) -> bool {
        level <= self.config.server.log_level
    }

    /// One line to the error log, which is standard error, in one write so that lines stay whole.
    pub fn log_error(&self, level: LogLevel, client: Option<SocketAddr>, module: &str, text: &str) {
        if !self.logs(level) {
            return;
        }
        let line = ErrorLine {
            time: wall_time(),
            module,
            level,
            pid: std::process::id(),
            client,
            message: text,
        };
        write_stderr(&line.render());
    }

    pub fn timeout(&self) -> Duration {
        self.config.server.timeout
    }
}

/// `Server: Drom/0.1.0 ...`, as `ServerTokens` asks.
pub fn server_header(tokens: ServerTokens) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let parts: Vec<&str> = version.split('.').collect();
    match tokens {
        ServerTokens::Major => format!("Drom/{}", parts[0]),
        ServerTokens::Minor => format!("Drom/{}.{}", parts[0], parts[1]),
        ServerTokens::Minimal => format!("Drom/{version}"),
        ServerTokens::Os => format!("Drom/{version} (Unix)"),
        ServerTokens::Full => format!("Drom/{version} (Unix) mod_perl/2.0.12"),
        #[allow(unreachable_patterns, reason = "ServerTokens grows with the directive")]
        _ => "Drom".to_owned(),
    }
}

pub fn wall_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Standard error in one write; a log that cannot be written has nowhere to complain.
pub fn write_stderr(line: &str) {
    use std::io::Write;
    let mut whole = String::with_capacity(line.len() + 1);
    whole.push_str(line.trim_end_matches('\n'));
    whole.push('\n');
    let _ = std::io::stderr().write_all(whole.as_bytes());
}
