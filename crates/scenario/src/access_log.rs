//! Access logs of web servers (common and combined format) as requests with their times. A log
//! does not hold bodies, so only requests without one are replayed unless all are asked for.

use std::{borrow::Cow, path::Path};

use percent_encoding::{AsciiSet, percent_encode};

use crate::{
    cookie_date,
    error::Error,
    feeder::{Feeder, Take},
    head,
    origin::{Origins, Parts},
    read::Compiler,
    scenario::{Scenario, Target},
    table::Source,
    template::{Names, Template},
};

/// What a log says, in the order of its times.
#[derive(Clone, Debug)]
pub struct AccessLog {
    /// When each request is due, from the first one.
    pub times_ns: Vec<u64>,
    /// Lines that are none of a log, or hold no request that can be sent.
    pub bad_lines: u64,
    /// The first of them.
    pub bad: Vec<BadLine>,
    /// Requests with another method than GET and HEAD.
    pub unsafe_requests: u64,
    rows: Feeder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub line: usize,
    pub reason: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Replay POST and others as well, with empty bodies.
    pub all_methods: bool,
    /// Send `Referer` and `User-Agent` as they are in the log.
    pub fields: bool,
    /// Spread the requests of a second evenly over it; a log has whole seconds.
    pub spread: bool,
}

/// One line, nothing copied but what the server had to escape.
struct Visit<'l> {
    at_s: i64,
    method: &'l [u8],
    target: Cow<'l, [u8]>,
    referer: Cow<'l, [u8]>,
    agent: Cow<'l, [u8]>,
}

/// How many bad lines are kept to be named.
const BAD_MAX: usize = 10;
const COLUMNS: [&str; 4] = ["method", "target", "referer", "agent"];

impl Default for LogOptions {
    fn default() -> Self {
        Self { all_methods: false, fields: true, spread: true }
    }
}

impl AccessLog {
    /// # Errors
    /// That there is nothing to replay in it, and why.
    pub fn read(path: &Path, bytes: &[u8], options: LogOptions) -> Result<Self, Error> {
        let mut log = Self {
            times_ns: Vec::new(),
            bad_lines: 0,
            bad: Vec::new(),
            unsafe_requests: 0,
            rows: Feeder::new("log", COLUMNS.map(str::to_owned).to_vec()),
        };
        let mut visits = Vec::new();
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            match visit(line) {
                Ok(visit) if options.all_methods || is_safe(visit.method) => visits.push(visit),
                Ok(_) => log.unsafe_requests += 1,
                Err(reason) => log.add_bad(at + 1, reason),
            }
        }
        if visits.is_empty() {
            return Err(log.nothing(path));
        }
        // Servers write a line when the answer is done, so they are not quite in order.
        visits.sort_by_key(|visit| visit.at_s);
        log.times_ns = times(&visits, options.spread);
        for visit in &visits {
            let fields =
                if options.fields { [&*visit.referer, &visit.agent] } else { [&b""[..]; 2] };
            let cells = [visit.method, &*visit.target].into_iter().chain(fields);
            cells.for_each(|cell| log.rows.push(cell));
        }
        Ok(log)
    }

    /// The requests as a scenario that sends the next one with each iteration. Share k of n takes
    /// those with the numbers k, k + n, ... as [`AccessLog::times_ns`] has them.
    ///
    /// # Errors
    /// That `base` is no server.
    pub fn scenario(self, path: &Path, base: &str) -> Result<Scenario, Error> {
        let wrong = |reason| Error::of_file(path, format!("{base:?} is no base: {reason}"));
        let mut origins = Origins::default();
        let base = origins.add(&Parts::of(base.as_bytes()).map_err(wrong)?);
        let mut rows = self.rows;
        (rows.once, rows.take) = (true, Take::Request);
        let rows_slice = std::slice::from_ref(&rows);
        let template = |text: &str| {
            let compiled = Template::compile(text, &Names::default(), rows_slice);
            compiled.map_err(|reason| Error::of_file(path, reason))
        };
        let method = template("{{log.method}}")?;
        let target = Target::Known { origin: base, path: template("{{log.target}}")? };
        let mut headers = Vec::new();
        for (name, value) in [("Referer", "{{log.referer}}"), ("User-Agent", "{{log.agent}}")] {
            headers.push((name.to_owned(), template(value)?));
        }
        let mut compiler = Compiler::new(Source { path, text: "" });
        compiler.set_places(origins, Some(base));
        Ok(compiler.single(rows, method, target, headers))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.times_ns.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.times_ns.is_empty()
    }

    fn add_bad(&mut self, line: usize, reason: &'static str) {
        self.bad_lines += 1;
        if self.bad.len() < BAD_MAX {
            self.bad.push(BadLine { line, reason });
        }
    }

    fn nothing(&self, path: &Path) -> Error {
        match self.bad.first() {
            Some(bad) => Error::at(path, bad.line, bad.reason),
            None if self.unsafe_requests > 0 => {
                Error::of_file(path, "there is no GET or HEAD in it; ask for all methods")
            }
            None => Error::of_file(path, "the log is empty"),
        }
    }
}

/// From the first; those of one second evenly over it, or all at its beginning.
fn times(visits: &[Visit<'_>], spread: bool) -> Vec<u64> {
    const SECOND_NS: u64 = 1_000_000_000;
    let first = visits.first().map_or(0, |visit| visit.at_s);
    let mut times = Vec::with_capacity(visits.len());
    for same in visits.chunk_by(|one, other| one.at_s == other.at_s) {
        let start = (same[0].at_s - first) as u64 * SECOND_NS;
        let gap = if spread { SECOND_NS / same.len() as u64 } else { 0 };
        times.extend((0..same.len() as u64).map(|at| start + at * gap));
    }
    times
}

fn is_safe(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD")
}

/// `host ident user [31/Jan/2026:10:00:00 +0000] "GET /x HTTP/1.1" 200 12 "referer" "agent"`; what
/// stands before the time does not matter.
fn visit(line: &[u8]) -> Result<Visit<'_>, &'static str> {
    let open = memchr::memchr(b'[', line).ok_or("there is no [time] in this line")?;
    let close = memchr::memchr(b']', &line[open..]).ok_or("the ] of the time is missing")?;
    let at_s = time(&line[open + 1..open + close])
        .ok_or("the time is not like [31/Jan/2026:10:00:00 +0000]")?;
    let mut rest = &line[open + close + 1..];
    let request = quoted(&mut rest).ok_or("there is no \"request\" behind the time")?;
    let mut words = request.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (protocol, more) = (words.next(), words.next());
    // HTTP/0.9 has no protocol; a target with spaces cannot be sent as it was.
    if !head::is_token(method)
        || more.is_some()
        || protocol.is_some_and(|p| !p.starts_with(b"HTTP/"))
    {
        return Err("the request is not like \"GET /x HTTP/1.1\"");
    }
    let target = path(unescaped(target)).ok_or("the request's target is no path")?;
    let referer = field(quoted(&mut rest));
    let agent = field(quoted(&mut rest));
    Ok(Visit { at_s, method, target, referer, agent })
}

/// Of an absolute URL, as proxies log it, the path.
fn path(target: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    let target = match Parts::of(&target) {
        Ok(parts) => {
            let mut out = Vec::new();
            crate::origin::put_target(parts.rest, &mut out);
            Cow::Owned(out)
        }
        Err(_) => target,
    };
    let target = in_ascii(target);
    let is_path = target.starts_with(b"/") && !target.contains(&b'#');
    (is_path && head::is_target(&target)).then_some(target)
}

/// Bytes that a client sent as they were are sent as any browser does: `%C3%BC`.
fn in_ascii(target: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if target.is_ascii() {
        return target;
    }
    Cow::Owned(percent_encode(&target, &AsciiSet::EMPTY).to_string().into_bytes())
}

/// Empty when there is none.
fn field(value: Option<&[u8]>) -> Cow<'_, [u8]> {
    let value = value.filter(|value| *value != b"-").map(unescaped).unwrap_or_default();
    if head::is_value(&value) { value } else { Cow::default() }
}

/// What stands between the next two quotes; `rest` goes on behind them.
fn quoted<'l>(rest: &mut &'l [u8]) -> Option<&'l [u8]> {
    let start = memchr::memchr(b'"', rest)? + 1;
    let mut end = start;
    loop {
        end += memchr::memchr2(b'"', b'\\', rest.get(end..)?)?;
        if rest[end] == b'"' {
            break;
        }
        end += 2;
    }
    let text = &rest[start..end];
    *rest = &rest[end + 1..];
    Some(text)
}

/// `\"`, `\\` and `\xhh`, as servers escape them.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let hex = rest.get(at + 2..at + 4).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match (rest.get(at + 1), byte) {
            (Some(b'x'), Some(byte)) => {
                out.push(byte);
                &rest[at + 4..]
            }
            (Some(letter), _) => {
                out.push(match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                });
                &rest[at + 2..]
            }
            (None, _) => &rest[at + 1..],
        };
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// `31/Jan/2026:10:00:00 +0000`, seconds since 1970.
fn time(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (date, zone) = text.split_once(' ')?;
    let mut parts = date.split(['/', ':']);
    let day: i64 = parts.next()?.parse().ok()?;
    let month = cookie_date::month(parts.next()?.as_bytes())?;
    let mut number = || parts.next()?.parse::<i64>().ok().filter(|n| (0..10_000).contains(n));
    let (year, hour, minute, second) = (number()?, number()?, number()?, number()?);
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let offset: i64 = zone.get(1..5)?.parse().ok()?;
    // The bounds of the year keep sums of nanoseconds within 64 bits.
    let is_day = (1970..2200).contains(&year) && (1..=31).contains(&day);
    let is_date = is_day && hour < 24 && minute < 60 && second <= 60;
    let seconds = cookie_date::days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    is_date.then_some(seconds - sign * (offset / 100 * 3600 + offset % 100 * 60))
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::{Answer, Next, Part, Share, User, Version};

    const LOG: &str = r#"1.2.3.4 - - [31/Jan/2026:10:00:02 +0000] "GET /b?c HTTP/1.1" 200 12
::1 - ann [31/Jan/2026:12:00:00 +0200] "GET /a HTTP/1.1" 200 12 "http://r/" "Moz \"5\" \x41"
h.example:80 1.2.3.4 - - [31/Jan/2026:10:00:02 +0000] "HEAD http://h/c HTTP/1.0" 304 - "-" "-"
1.2.3.4 - - [31/Jan/2026:10:00:03 +0000] "POST /p HTTP/1.1" 200 12
1.2.3.4 - - [31/Jan/2026:10:00:03 +0000] "\x16\x03\x01" 400 0 "-" "-"
nonsense
"#;

    fn read(text: &str, options: LogOptions) -> Result<AccessLog, String> {
        let read = AccessLog::read(Path::new("a.log"), text.as_bytes(), options);
        read.map_err(|error| error.to_string())
    }

    /// Everything that is sent until there is no more.
    fn sent(log: AccessLog) -> Vec<String> {
        let read = log.scenario(Path::new("a.log"), "http://test:8080");
        let scenario = read.expect("a scenario");
        let mut share = Share::new(&scenario, Part::whole(1));
        let mut user = User::new(&scenario, &share, 0);
        let mut sent = Vec::new();
        loop {
            match user.next(&scenario, &mut share, 0) {
                Next::Send => {
                    let mut out = Vec::new();
                    share.request.write_http1(Version::Http11, true, &mut out);
                    sent.push(String::from_utf8_lossy(&out).into_owned());
                    let answer =
                        Answer { status: 200, head: b"", body: b"", body_bytes: 0, after_ns: 0 };
                    user.answered(&scenario, &mut share, &answer, 0);
                }
                Next::Done => {}
                Next::Exhausted { .. } => return sent,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_log_is_replayed_in_time() {
        let log = read(LOG, LogOptions::default()).expect("good");
        assert_eq!(log.times_ns, [0, 2_000_000_000, 2_500_000_000]);
        assert_eq!((log.len(), log.bad_lines, log.unsafe_requests), (3, 2, 1));
        assert_eq!(log.bad[1], BadLine { line: 6, reason: "there is no [time] in this line" });
        let sent = sent(log);
        let fields = "Referer: http://r/\r\nUser-Agent: Moz \"5\" A\r\n";
        assert_eq!(sent[0], format!("GET /a HTTP/1.1\r\nHost: test:8080\r\n{fields}\r\n"));
        assert_eq!(sent[1], "GET /b?c HTTP/1.1\r\nHost: test:8080\r\n\r\n");
        assert!(sent[2].starts_with("HEAD /c HTTP/1.1\r\n"), "{}", sent[2]);
    }

    /// As servers log them, and as some were logged.
    #[test]
    fn bytes_that_are_no_ascii_are_escaped() {
        for target in ["/a?\\xC3\\xBC=1", "/a?\u{fc}=1"] {
            let line =
                format!("h - - [31/Jan/2026:10:00:02 +0000] \"GET {target} HTTP/1.1\" 200 1\n");
            let sent = sent(read(&line, LogOptions::default()).expect("good"));
            assert!(sent[0].starts_with("GET /a?%C3%BC=1 HTTP/1.1\r\n"), "{}", sent[0]);
        }
    }

    #[test]
    fn options_decide_what_is_sent_and_when() {
        let options = LogOptions { all_methods: true, fields: false, spread: false };
        let log = read(LOG, options).expect("good");
        assert_eq!(log.times_ns, [0, 2_000_000_000, 2_000_000_000, 3_000_000_000]);
        let sent = sent(log);
        assert_eq!(sent[0], "GET /a HTTP/1.1\r\nHost: test:8080\r\n\r\n");
        assert!(sent[3].ends_with("Content-Length: 0\r\n\r\n"), "{}", sent[3]);
    }

    #[test]
    fn a_log_without_a_request_says_why() {
        let told = |text: &str| read(text, LogOptions::default()).expect_err("nothing to replay");
        assert_eq!(told(""), "a.log: the log is empty");
        assert!(
            told("\n- - [x] \"GET / HTTP/1.1\"\n").starts_with("a.log:2: the time is not like")
        );
        let line =
            |request: &str| format!("h - - [31/Jan/2026:10:00:02 +0000] \"{request}\" 200 1\n");
        assert!(told(&line("POST / HTTP/1.1")).contains("no GET or HEAD"));
        assert!(told(&line("OPTIONS * HTTP/1.1")).contains("no path"));
        assert!(told(&line("-")).contains("no path"));
        assert!(told(&line("GET /a b HTTP/1.1")).contains("is not like"));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(at in 0..LOG.len(), with in "\\PC{0,3}", cut in 0usize..30) {
            let mut bytes = LOG.as_bytes().to_vec();
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, with.bytes());
            if let Ok(log) = AccessLog::read(Path::new("a"), &bytes, LogOptions::default()) {
                prop_assert!(log.times_ns.is_sorted());
                prop_assert_eq!(sent(log.clone()).len(), log.len());
            }
        }
    }
}
