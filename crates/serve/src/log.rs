//! Log lines: `LogFormat` (mod_log_config's language, parsed once, rendered per request) and the
//! error log's line. Knows neither files nor the server: an access line asks a `LogEntry`, times
//! come in as numbers. The time zone is the process's own, as in Apache.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use crate::config::{LogLevel, not_one_of};

/// What a request can tell about itself. Bytes as the client sent them; escaping is done here.
pub trait LogEntry {
    fn client(&self) -> SocketAddr;
    fn local(&self) -> SocketAddr;
    /// Name from authentication.
    fn user(&self) -> Option<&[u8]>;
    /// When the request line was read, in microseconds since 1970.
    fn time_us(&self) -> i64;
    fn duration_us(&self) -> u64;
    fn request_line(&self) -> &[u8];
    fn method(&self) -> &[u8];
    /// The path, without the query.
    fn path(&self) -> &[u8];
    fn query(&self) -> Option<&[u8]>;
    /// `HTTP/1.1`
    fn protocol(&self) -> &str;
    /// The status sent.
    fn status(&self) -> u16;
    /// The status before internal redirects.
    fn original_status(&self) -> u16;
    /// Bytes of the body sent.
    fn body_bytes(&self) -> u64;
    /// Bytes received, head and body.
    fn bytes_in(&self) -> u64;
    /// Bytes sent, head and body.
    fn bytes_out(&self) -> u64;
    fn request_field(&self, name: &str) -> Option<&[u8]>;
    fn response_field(&self, name: &str) -> Option<&[u8]>;
    fn variable(&self, name: &str) -> Option<&[u8]>;
    fn note(&self, name: &str) -> Option<&[u8]>;
    fn filename(&self) -> &[u8];
    fn handler(&self) -> &str;
    /// `ServerName`.
    fn server_name(&self) -> &str;
    /// The host that the client asked for.
    fn host(&self) -> &str;
    fn pid(&self) -> u32;
    /// Requests served on this connection before this one.
    fn keep_alive_requests(&self) -> u64;
    /// `X` aborted, `+` stays open, `-` closes.
    fn connection_status(&self) -> u8;
}

/// Values with an argument in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    RequestField,
    ResponseField,
    Variable,
    Note,
}

/// Units of `%D` and `%{…}T`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Time {
    /// `[20/Nov/2026:22:27:22 +0000]`
    Standard,
    Strftime(std::ffi::CString),
    Seconds,
    Milliseconds,
    Microseconds,
    MillisecondPart,
    MicrosecondPart,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Text(String),
    Client,
    Local,
    LogName,
    User,
    Time { at: Time, end: bool },
    Duration(Unit),
    RequestLine,
    Status { original: bool },
    BodyBytes { dash: bool },
    BytesIn,
    BytesOut,
    BytesBoth,
    Named(Named, String),
    Path,
    Query,
    Method,
    Protocol,
    Port { local: bool, client: bool },
    Pid,
    ServerName,
    Host,
    Filename,
    Handler,
    KeepAlive,
    Connection,
}

/// An item and the statuses it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    item: Item,
    statuses: Vec<u16>,
    negated: bool,
}

/// A parsed format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFormat {
    fields: Vec<Field>,
}

/// The last `%t`, so that a second's lines share one look at the calendar.
#[derive(Debug, Default)]
pub struct TimeCache {
    second: i64,
    text: String,
}

impl LogFormat {
    /// Reads a format; the error is for the user.
    pub fn parse(text: &str) -> Result<LogFormat, String> {
        let (mut fields, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            rest = match c {
                '%' if after.starts_with('%') => {
                    literal.push('%');
                    &after[1..]
                }
                '%' => {
                    push_literal(&mut fields, &mut literal);
                    let (field, after) = parse_field(after)?;
                    fields.push(field);
                    after
                }
                '\\' => unescape(after, &mut literal),
                _ => {
                    literal.push(c);
                    after
                }
            };
        }
        push_literal(&mut fields, &mut literal);
        Ok(LogFormat { fields })
    }

    /// Appends one line, with its end.
    pub fn render(&self, entry: &dyn LogEntry, times: &mut TimeCache, out: &mut Vec<u8>) {
        for field in &self.fields {
            let listed = field.statuses.contains(&entry.status());
            if field.statuses.is_empty() || listed != field.negated {
                field.item.render(entry, times, out);
            } else {
                out.push(b'-');
            }
        }
        out.push(b'\n');
    }
}

fn push_literal(fields: &mut Vec<Field>, literal: &mut String) {
    if !literal.is_empty() {
        let item = Item::Text(std::mem::take(literal));
        fields.push(Field { item, statuses: Vec::new(), negated: false });
    }
}

/// `\n`, `\t`; any other backslash stands for itself or what follows it.
fn unescape<'a>(after: &'a str, literal: &mut String) -> &'a str {
    let (c, used) = match after.chars().next() {
        Some('n') => ('\n', 1),
        Some('t') => ('\t', 1),
        Some(c @ ('\\' | '"' | '\'')) => (c, 1),
        _ => ('\\', 0),
    };
    literal.push(c);
    &after[used..]
}

/// Reads what follows a `%`: `[!]statuses`, `<` or `>`, `{argument}`, letter, in any order before
/// the letter.
fn parse_field(text: &str) -> Result<(Field, &str), String> {
    let (mut rest, mut argument, mut original) = (text, None, None);
    let (mut statuses, mut negated) = (Vec::new(), false);
    loop {
        let c = rest.chars().next().ok_or("the format ends after %")?;
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '!' => {
                negated = true;
                after
            }
            '<' | '>' => {
                original = Some(c == '<');
                after
            }
            ',' => after,
            '0'..='9' => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                statuses.push(rest[..end].parse().map_err(|_| format!("%{text}: no status"))?);
                &rest[end..]
            }
            '{' => {
                let end = after.find('}').ok_or_else(|| format!("%{text}: the }} is missing"))?;
                argument = Some(&after[..end]);
                &after[end + 1..]
            }
            '^' => return Err(format!("%{text}: trailer fields are not kept")),
            letter => {
                let item = item(letter, argument, original)?;
                return Ok((Field { item, statuses, negated }, after));
            }
        };
    }
}

fn item(letter: char, argument: Option<&str>, original: Option<bool>) -> Result<Item, String> {
    let named = |kind| match argument {
        Some(name) => Ok(Item::Named(kind, name.to_string())),
        None => Err(format!("%{letter} needs a name: %{{name}}{letter}")),
    };
    Ok(match letter {
        'h' | 'a' => Item::Client,
        'A' => Item::Local,
        'l' => Item::LogName,
        'u' => Item::User,
        't' => time(argument.unwrap_or("")),
        'T' => Item::Duration(unit(argument)?),
        'D' => Item::Duration(Unit::Microseconds),
        'r' => Item::RequestLine,
        // Apache: %s is the original request's, %>s the last one's.
        's' => Item::Status { original: original.unwrap_or(true) },
        'b' => Item::BodyBytes { dash: true },
        'B' => Item::BodyBytes { dash: false },
        'I' => Item::BytesIn,
        'O' => Item::BytesOut,
        'S' => Item::BytesBoth,
        'i' => named(Named::RequestField)?,
        'o' => named(Named::ResponseField)?,
        'e' => named(Named::Variable)?,
        'n' => named(Named::Note)?,
        'U' => Item::Path,
        'q' => Item::Query,
        'm' => Item::Method,
        'H' => Item::Protocol,
        'p' => port(argument)?,
        'P' => Item::Pid,
        'v' => Item::ServerName,
        'V' => Item::Host,
        'f' => Item::Filename,
        'R' => Item::Handler,
        'k' => Item::KeepAlive,
        'X' => Item::Connection,
        'C' | 'L' => return Err(format!("%{letter} is not supported yet")),
        _ => return Err(format!("%{letter} is no log format letter")),
    })
}

fn unit(argument: Option<&str>) -> Result<Unit, String> {
    match argument {
        None | Some("s") => Ok(Unit::Seconds),
        Some("ms") => Ok(Unit::Milliseconds),
        Some("us") => Ok(Unit::Microseconds),
        Some(other) => Err(not_one_of(other, &["s", "ms", "us"])),
    }
}

fn port(argument: Option<&str>) -> Result<Item, String> {
    match argument {
        None | Some("canonical") => Ok(Item::Port { local: false, client: false }),
        Some("local") => Ok(Item::Port { local: true, client: false }),
        Some("remote") => Ok(Item::Port { local: false, client: true }),
        Some(other) => Err(not_one_of(other, &["canonical", "local", "remote"])),
    }
}

fn time(argument: &str) -> Item {
    let (end, format) = match argument.strip_prefix("end:") {
        Some(format) => (true, format),
        None if argument == "end" => (true, ""),
        None => (false, argument.strip_prefix("begin:").unwrap_or(argument)),
    };
    let at = match format {
        "" | "begin" => Time::Standard,
        "sec" => Time::Seconds,
        "msec" => Time::Milliseconds,
        "usec" => Time::Microseconds,
        "msec_frac" => Time::MillisecondPart,
        "usec_frac" => Time::MicrosecondPart,
        // The text comes out of a file that has no NUL in it; one would end the format.
        other => Time::Strftime(std::ffi::CString::new(other).unwrap_or_default()),
    };
    Item::Time { at, end }
}

impl Item {
    fn render(&self, e: &dyn LogEntry, times: &mut TimeCache, out: &mut Vec<u8>) {
        match self {
            Item::Text(text) => out.extend_from_slice(text.as_bytes()),
            Item::Client => address(e.client().ip(), out),
            Item::Local => address(e.local().ip(), out),
            Item::LogName => out.push(b'-'),
            Item::User => match e.user() {
                Some(b"") => out.extend_from_slice(b"\"\""),
                user => escaped(user, out),
            },
            Item::Time { at, end } => {
                let spent = if *end { i64::try_from(e.duration_us()).unwrap_or(0) } else { 0 };
                at.render(e.time_us().saturating_add(spent), times, out);
            }
            Item::Duration(Unit::Seconds) => number(e.duration_us() / 1_000_000, out),
            Item::Duration(Unit::Milliseconds) => number(e.duration_us() / 1000, out),
            Item::Duration(Unit::Microseconds) => number(e.duration_us(), out),
            Item::RequestLine => escaped(Some(e.request_line()), out),
            Item::Status { original: true } => number(u64::from(e.original_status()), out),
            Item::Status { original: false } => number(u64::from(e.status()), out),
            Item::BodyBytes { dash: true } if e.body_bytes() == 0 => out.push(b'-'),
            Item::BodyBytes { .. } => number(e.body_bytes(), out),
            Item::BytesIn => number(e.bytes_in(), out),
            Item::BytesOut => number(e.bytes_out(), out),
            Item::BytesBoth => number(e.bytes_in() + e.bytes_out(), out),
            _ => self.render_name(e, out),
        }
    }

    /// The rest: names and numbers of the request and the server.
    fn render_name(&self, e: &dyn LogEntry, out: &mut Vec<u8>) {
        match self {
            Item::Named(Named::RequestField, name) => escaped(e.request_field(name), out),
            Item::Named(Named::ResponseField, name) => escaped(e.response_field(name), out),
            Item::Named(Named::Variable, name) => escaped(e.variable(name), out),
            Item::Named(Named::Note, name) => escaped(e.note(name), out),
            Item::Path => escaped(Some(e.path()), out),
            Item::Query => {
                if let Some(query) = e.query() {
                    out.push(b'?');
                    escape_into(query, out);
                }
            }
            Item::Method => escaped(Some(e.method()), out),
            Item::Protocol => escaped(Some(e.protocol().as_bytes()), out),
            Item::Port { client: true, .. } => number(u64::from(e.client().port()), out),
            Item::Port { .. } => number(u64::from(e.local().port()), out),
            Item::Pid => number(u64::from(e.pid()), out),
            Item::ServerName => escaped(Some(e.server_name().as_bytes()), out),
            Item::Host => escaped(Some(e.host().as_bytes()), out),
            Item::Filename => escaped(Some(e.filename()), out),
            Item::Handler => escaped(Some(e.handler().as_bytes()), out),
            Item::KeepAlive => number(e.keep_alive_requests(), out),
            Item::Connection => out.push(e.connection_status()),
            _ => {}
        }
    }
}

impl Time {
    fn render(&self, time_us: i64, times: &mut TimeCache, out: &mut Vec<u8>) {
        let second = time_us.div_euclid(1_000_000);
        let micros = time_us.rem_euclid(1_000_000);
        match self {
            Time::Standard => out.extend_from_slice(times.standard(second).as_bytes()),
            Time::Strftime(format) => strftime(format, &calendar(second), out),
            Time::Seconds => append(out, format_args!("{second}")),
            Time::Milliseconds => append(out, format_args!("{}", time_us.div_euclid(1000))),
            Time::Microseconds => append(out, format_args!("{time_us}")),
            Time::MillisecondPart => append(out, format_args!("{:03}", micros / 1000)),
            Time::MicrosecondPart => append(out, format_args!("{micros:06}")),
        }
    }
}

impl TimeCache {
    fn standard(&mut self, second: i64) -> &str {
        if self.second != second || self.text.is_empty() {
            self.second = second;
            let tm = calendar(second);
            let offset = tm.tm_gmtoff / 60;
            let sign = if offset < 0 { '-' } else { '+' };
            let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
            self.text.clear();
            let _ = write!(
                self.text,
                "[{:02}/{}/{}:{:02}:{:02}:{:02} {sign}{hours:02}{minutes:02}]",
                tm.tm_mday,
                month(&tm),
                tm.tm_year + 1900,
                tm.tm_hour,
                tm.tm_min,
                tm.tm_sec
            );
        }
        &self.text
    }
}

/// Local time of a second since 1970.
fn calendar(second: i64) -> libc::tm {
    // SAFETY: an all-zero tm is a valid value of the plain C struct (its pointer may be null).
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; localtime_r leaves `tm` as it is when it fails.
    unsafe { libc::localtime_r(&raw const second, &raw mut tm) };
    tm
}

fn strftime(format: &std::ffi::CStr, tm: &libc::tm, out: &mut Vec<u8>) {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer's length is given, the format ends in NUL and `tm` is a complete value.
    let used = unsafe {
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &raw const *tm)
    };
    out.extend_from_slice(&buffer[..used]);
}

/// English names: log readers expect them whatever the locale is.
fn month(tm: &libc::tm) -> &'static str {
    const NAMES: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    usize::try_from(tm.tm_mon).ok().and_then(|at| NAMES.get(at)).unwrap_or(&"Jan")
}

fn weekday(tm: &libc::tm) -> &'static str {
    const NAMES: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    usize::try_from(tm.tm_wday).ok().and_then(|at| NAMES.get(at)).unwrap_or(&"Sun")
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments) {
    // Writing into a Vec cannot fail.
    let _ = std::io::Write::write_fmt(out, text);
}

fn number(value: u64, out: &mut Vec<u8>) {
    append(out, format_args!("{value}"));
}

fn address(ip: IpAddr, out: &mut Vec<u8>) {
    append(out, format_args!("{}", ip.to_canonical()));
}

/// A value as Apache writes it: `-` for none and for an empty one.
fn escaped(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None | Some(b"") => out.push(b'-'),
        Some(value) => escape_into(value, out),
    }
}

/// `ap_escape_logitem`: quotes and backslashes get a backslash, the rest of what does not print is
/// `\n` and its like or `\xhh`, so that no client can forge a line.
fn escape_into(value: &[u8], out: &mut Vec<u8>) {
    for &c in value {
        match c {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', c]),
            b' '..=b'~' => out.push(c),
            8 => out.extend_from_slice(b"\\b"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            11 => out.extend_from_slice(b"\\v"),
            _ => append(out, format_args!("\\x{c:02x}")),
        }
    }
}

/// One line of the error log.
#[derive(Debug, Clone, Copy)]
pub struct ErrorLine<'a> {
    /// Microseconds since 1970.
    pub time_us: i64,
    /// The part of the server that speaks: `core`, `cgi`, `perl` …
    pub module: &'a str,
    pub level: LogLevel,
    pub pid: u32,
    pub client: Option<SocketAddr>,
    pub message: &'a [u8],
}

impl ErrorLine<'_> {
    /// Appends the line in Apache 2.4's form. A message of several lines (a Perl stack) is one
    /// line with `\n` in it, as Apache writes it.
    pub fn render(&self, out: &mut Vec<u8>) {
        let tm = calendar(self.time_us.div_euclid(1_000_000));
        let micros = self.time_us.rem_euclid(1_000_000);
        append(
            out,
            format_args!(
                "[{} {} {:02} {:02}:{:02}:{:02}.{micros:06} {}] [{}:{}] [pid {}] ",
                weekday(&tm),
                month(&tm),
                tm.tm_mday,
                tm.tm_hour,
                tm.tm_min,
                tm.tm_sec,
                tm.tm_year + 1900,
                self.module,
                self.level.name(),
                self.pid
            ),
        );
        if let Some(client) = self.client {
            append(out, format_args!("[client {client}] "));
        }
        error_text(self.message.trim_ascii_end(), out);
        out.push(b'\n');
    }
}

/// What cannot be read is escaped. Bytes over 127 stay: messages are in the script's own language.
fn error_text(message: &[u8], out: &mut Vec<u8>) {
    for &c in message {
        match c {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0..32 | 127 => append(out, format_args!("\\x{c:02x}")),
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
