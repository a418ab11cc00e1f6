//! What a generation of processes serves: the configuration and everything derived from it once.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::OpenOptions,
    net::SocketAddr,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use drom_perl::{Number, ServerFacts, Table, Text};

use crate::{
    config::{Config, LogLevel, ServerTokens},
    files::MediaTypes,
    http,
    log::{ErrorLine, LogFormat},
    map::Mapper,
    master::ServeError,
};

/// One per generation. The master drops it with the generation; in a template, which ends with it,
/// it is leaked, so that every request of its workers may point at it.
pub struct Site {
    pub config: Arc<Config>,
    pub mapper: Mapper,
    /// The `Server` header.
    pub server: String,
    pub limits: http::Limits,
    pub types: MediaTypes,
    pub access_logs: Vec<AccessLog>,
    /// Where errors go; the file that standard error was pointed at.
    pub error_log_name: String,
    /// The server's own environment, for PassEnv: workers forget theirs before handlers can see it.
    pub environment: HashMap<OsString, OsString>,
}

/// One `CustomLog`: opened by the master, written line by line in append mode.
pub struct AccessLog {
    pub format: LogFormat,
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
    pub fn log_error(
        &self,
        level: LogLevel,
        client: Option<SocketAddr>,
        module: &str,
        text: impl AsRef<[u8]>,
    ) {
        if !self.logs(level) {
            return;
        }
        write_stderr(&error_line(level, client, module, text));
    }

    pub fn timeout(&self) -> Duration {
        self.config.server.timeout
    }

    /// A field of the server's object in Perl. `None`: it is not the same for every request.
    pub fn text(&self, field: Text) -> Option<Vec<u8>> {
        let settings = &self.config.server;
        Some(match field {
            Text::ServerHostname => self.server_name().into(),
            Text::ServerAdmin => {
                settings.server_admin.as_deref().unwrap_or("[no address given]").into()
            }
            Text::ErrorFname => self.error_log_name.as_bytes().to_vec(),
            Text::ServerRoot => settings.server_root.as_os_str().as_bytes().to_vec(),
            Text::ServerSoftware => self.server.as_bytes().to_vec(),
            Text::ChildInit => self.config.perl.child_init.join("\0").into_bytes(),
            Text::ChildExit => self.config.perl.child_exit.join("\0").into_bytes(),
            _ => return None,
        })
    }

    /// What Perl is told of the server while there is no request.
    pub fn facts(&'static self) -> ServerFacts {
        let fields = [
            Text::ServerHostname,
            Text::ServerAdmin,
            Text::ErrorFname,
            Text::ServerRoot,
            Text::ServerSoftware,
            Text::ChildInit,
            Text::ChildExit,
        ];
        let texts = fields.into_iter().filter_map(|f| Some((f, self.text(f)?))).collect();
        let port = self.config.server.server_port.unwrap_or(0);
        let numbers = vec![
            (Number::Timeout, self.timeout().as_micros() as i64),
            (Number::Port, i64::from(port)),
            (Number::LogLevel, self.config.server.log_level.number()),
        ];
        let mut vars = Table::new();
        for (name, value) in &self.config.base.perl_vars {
            vars.add(name.as_bytes(), value.as_bytes());
        }
        let log = |level, text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            self.log_error(LogLevel::of_apache(level), None, "perl", text.trim_end());
        };
        ServerFacts { texts, numbers, vars, log: Some(Box::new(log)) }
    }
}

/// Standard error becomes the error log.
pub fn take_over(error_log: &std::fs::File) {
    // SAFETY: both descriptors are open.
    unsafe { libc::dup2(error_log.as_raw_fd(), 2) };
}

/// Opens the logs and derives what every request needs. The error log comes besides: until the code
/// is loaded, the one from before goes on.
pub fn make(config: Config) -> Result<(Site, Option<std::fs::File>), ServeError> {
    let settings = &config.server;
    let error_log = settings.error_log.clone();
    let error_file = error_log.as_deref().map(open_log).transpose()?;
    let mut access_logs = Vec::new();
    for log in &settings.custom_logs {
        let format = LogFormat::parse(&log.format).map_err(ServeError::Config)?;
        access_logs.push(AccessLog { format, file: open_log(&log.path)? });
    }
    let limits = http::Limits {
        line: settings.limit_request_line,
        fields: settings.limit_request_fields,
        field_size: settings.limit_request_field_size,
    };
    let types_file = settings.types_config.as_deref().unwrap_or(Path::new("/etc/mime.types"));
    let types = match (std::fs::read(types_file), &settings.types_config) {
        (Ok(text), _) => MediaTypes::parse(&String::from_utf8_lossy(&text)),
        (Err(_), None) => MediaTypes::built_in(),
        (Err(e), Some(path)) => return Err(ServeError::Types(path.clone(), e)),
    };
    let error_log_name = error_log.map_or_else(|| "stderr".to_owned(), |p| p.display().to_string());
    let server = server_header(settings.server_tokens);
    let config = Arc::new(config);
    let mapper = Mapper::new(Arc::clone(&config));
    let environment = std::env::vars_os().collect();
    let site =
        Site { config, mapper, server, limits, types, access_logs, error_log_name, environment };
    Ok((site, error_file))
}

fn open_log(path: &Path) -> Result<std::fs::File, ServeError> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| ServeError::Log(path.to_path_buf(), e))
}

/// A line of the error log, without its end.
pub fn error_line(
    level: LogLevel,
    client: Option<SocketAddr>,
    module: &str,
    text: impl AsRef<[u8]>,
) -> Vec<u8> {
    let line = ErrorLine {
        time_us: i64::try_from(wall_time().as_micros()).unwrap_or(i64::MAX),
        module,
        level,
        pid: std::process::id(),
        client,
        message: text.as_ref(),
    };
    let mut out = Vec::with_capacity(256);
    line.render(&mut out);
    out.pop();
    out
}

/// `Server: Drom/0.1.0 ...`, as `ServerTokens` asks.
pub fn server_header(tokens: ServerTokens) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let parts: Vec<&str> = version.split('.').collect();
    match tokens {
        ServerTokens::Prod => "Drom".to_owned(),
        ServerTokens::Major => format!("Drom/{}", parts[0]),
        ServerTokens::Minor => format!("Drom/{}.{}", parts[0], parts[1]),
        ServerTokens::Minimal => format!("Drom/{version}"),
        ServerTokens::Os => format!("Drom/{version} (Unix)"),
        ServerTokens::Full => format!("Drom/{version} (Unix) mod_perl/2.0.12"),
    }
}

pub fn wall_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Standard error in one write; a log that cannot be written has nowhere to complain.
pub fn write_stderr(line: &[u8]) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(&[line, b"\n"].concat());
}
