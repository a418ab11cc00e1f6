//! What holds for the whole server: `Settings` with Apache's defaults, the ordered startup of Perl
//! (`PerlStartup`), aliases and logs. Plain data without behaviour.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::bytes::Regex;

use super::fault::Place;
use super::policy::Pairs;

/// Server-wide settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Host name of `ServerName`, without the port.
    pub server_name: Option<String>,
    pub server_port: Option<u16>,
    pub server_admin: Option<String>,
    pub server_root: PathBuf,
    pub document_root: PathBuf,
    pub start_servers: u32,
    pub min_spare: u32,
    pub max_spare: u32,
    pub max_request_workers: u32,
    /// Requests a worker serves before it is replaced; 0 is no limit. (Apache counts connections.)
    pub max_connections_per_child: u64,
    pub listen_backlog: u32,
    pub keep_alive: bool,
    pub keep_alive_timeout: Duration,
    /// Requests on one connection; 0 is no limit.
    pub max_keep_alive_requests: u64,
    pub timeout: Duration,
    pub limit_request_line: usize,
    /// Header fields; 0 is no limit.
    pub limit_request_fields: usize,
    pub limit_request_field_size: usize,
    /// `None`: standard error.
    pub error_log: Option<PathBuf>,
    pub log_level: LogLevel,
    pub custom_logs: Vec<CustomLog>,
    /// Every log: the directive, its file, where it stands.
    pub log_places: Vec<(&'static str, PathBuf, Place)>,
    /// `LogFormat` nicknames and the common ones.
    pub log_formats: Pairs,
    pub pid_file: Option<PathBuf>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub types_config: Option<PathBuf>,
    pub server_tokens: ServerTokens,
    pub use_canonical_name: bool,
    /// Bytes of private memory after which a worker is replaced.
    pub worker_memory_limit: Option<u64>,
    /// Bytes of a response kept in memory before it spills.
    pub response_buffer_limit: u64,
    /// How long a client may take for a whole request head; zero: no limit.
    pub read_timeout: Duration,
    /// Modules loaded in the CGI zygote.
    pub cgi_preload: Vec<String>,
    /// Whether a CGI child may run another script after one that left nothing behind.
    pub cgi_reuse: bool,
    /// Whether something is run as CGI: a perl for it is started before the first request.
    pub cgi_wanted: bool,
}

impl Settings {
    /// Apache 2.4's defaults (prefork).
    #[must_use]
    pub fn new(server_root: &Path) -> Settings {
        Settings {
            server_name: None,
            server_port: None,
            server_admin: None,
            server_root: server_root.to_path_buf(),
            document_root: server_root.join("htdocs"),
            start_servers: 5,
            min_spare: 5,
            max_spare: 10,
            max_request_workers: 256,
            max_connections_per_child: 0,
            listen_backlog: 511,
            keep_alive: true,
            keep_alive_timeout: Duration::from_secs(5),
            max_keep_alive_requests: 100,
            timeout: Duration::from_secs(60),
            limit_request_line: 8190,
            limit_request_fields: 100,
            limit_request_field_size: 8190,
            error_log: None,
            log_level: LogLevel::Warn,
            custom_logs: Vec::new(),
            log_places: Vec::new(),
            log_formats: common_log_formats(),
            pid_file: None,
            user: None,
            group: None,
            types_config: None,
            server_tokens: ServerTokens::Full,
            use_canonical_name: false,
            worker_memory_limit: None,
            response_buffer_limit: 1 << 20,
            read_timeout: Duration::ZERO,
            cgi_preload: Vec::new(),
            cgi_reuse: true,
            cgi_wanted: false,
        }
    }
}

/// Apache's own default format, plus the two every site defines in the same words.
fn common_log_formats() -> Pairs {
    [
        ("common", "%h %l %u %t \"%r\" %>s %b"),
        ("combined", "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\""),
    ]
    .map(|(name, format)| (name.to_string(), format.to_string()))
    .to_vec()
}

/// Apache's log levels, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Emerg,
    Alert,
    Crit,
    Error,
    Warn,
    Notice,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub const NAMES: [(&'static str, LogLevel); 9] = [
        ("emerg", LogLevel::Emerg),
        ("alert", LogLevel::Alert),
        ("crit", LogLevel::Crit),
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("notice", LogLevel::Notice),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace1", LogLevel::Trace),
    ];

    /// The word written in log lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, level)| *level == self).map_or("", |(name, _)| name)
    }

    /// Apache's number for it (`APLOG_ERR` is 3), as Perl code passes it.
    #[must_use]
    pub fn of_apache(number: i32) -> Self {
        let at = usize::try_from(number).unwrap_or_default();
        Self::NAMES.get(at).map_or(LogLevel::Trace, |(_, level)| *level)
    }
}

/// How much the `Server` header tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTokens {
    /// `Drom`
    Prod,
    /// `Drom/0`
    Major,
    /// `Drom/0.1`
    Minor,
    /// `Drom/0.1.0`
    Minimal,
    /// `Drom/0.1.0 (Unix)`
    Os,
    /// The same with what else is built in.
    Full,
}

/// One access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomLog {
    pub path: PathBuf,
    /// The format text, nicknames resolved.
    pub format: String,
}

/// One `Alias`, `AliasMatch`, `ScriptAlias` or `ScriptAliasMatch`.
#[derive(Debug, Clone)]
pub struct Alias {
    pub from: AliasSource,
    /// A path prefix, or for a regular expression the whole path with `$1`.
    pub to: String,
    /// Everything under it is a CGI script.
    pub script: bool,
}

/// What an alias matches.
#[derive(Debug, Clone)]
pub enum AliasSource {
    Prefix(String),
    Regex(Regex),
}

/// What Perl does before the first request.
#[derive(Debug, Clone, Default)]
pub struct PerlStartup {
    /// `PerlSwitches`, in order.
    pub switches: Vec<(String, Place)>,
    /// Modules and files to load, in order.
    pub steps: Vec<PerlStep>,
    /// `PerlSetEnv` outside of sections.
    pub set_env: Pairs,
    /// `PerlPassEnv`.
    pub pass_env: Vec<String>,
    /// `PerlTaintCheck On`: as `-T` in the switches.
    pub taint: bool,
    /// `PerlWarn On`: as `-w` in the switches.
    pub warn: bool,
    /// Whether any directive of Perl's stands in the file: a server without needs no interpreter.
    pub wanted: bool,
    /// Classes and subs named as handlers anywhere.
    pub handlers: HashSet<String>,
}

/// One thing to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerlStep {
    pub kind: PerlStepKind,
    pub place: Place,
}

/// How to load it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PerlStepKind {
    /// `PerlModule My::Module`
    Module(String),
    /// `PerlRequire startup.pl`
    Require(PathBuf),
    /// `PerlConfigRequire`: before `PerlModule` lines that follow, like `Require`.
    ConfigRequire(PathBuf),
    /// `PerlPostConfigRequire`: after the whole configuration is read.
    PostConfigRequire(PathBuf),
}
