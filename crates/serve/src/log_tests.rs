//! Access and error log lines against what Apache 2.4.71 wrote for the same requests. The time
//! zone is the machine's, so that expectations about hours are computed, not fixed.

use proptest::prelude::*;

use super::*;

struct Entry {
    line: &'static [u8],
    agent: Option<&'static [u8]>,
    status: u16,
    bytes: u64,
}

impl LogEntry for Entry {
    fn client(&self) -> SocketAddr {
        "127.0.0.1:38306".parse().unwrap()
    }
    fn local(&self) -> SocketAddr {
        "127.0.0.2:8080".parse().unwrap()
    }
    fn user(&self) -> Option<&[u8]> {
        None
    }
    fn time_us(&self) -> i64 {
        1_767_323_045_012_345
    }
    fn duration_us(&self) -> u64 {
        2_345_678
    }
    fn request_line(&self) -> &[u8] {
        self.line
    }
    fn method(&self) -> &[u8] {
        b"GET"
    }
    fn path(&self) -> &[u8] {
        b"/a"
    }
    fn query(&self) -> Option<&[u8]> {
        Some(b"x=1")
    }
    fn protocol(&self) -> &str {
        "HTTP/1.1"
    }
    fn status(&self) -> u16 {
        self.status
    }
    fn original_status(&self) -> u16 {
        302
    }
    fn body_bytes(&self) -> u64 {
        self.bytes
    }
    fn bytes_in(&self) -> u64 {
        100
    }
    fn bytes_out(&self) -> u64 {
        250
    }
    fn request_field(&self, name: &str) -> Option<&[u8]> {
        self.agent.filter(|_| name.eq_ignore_ascii_case("user-agent"))
    }
    fn response_field(&self, _name: &str) -> Option<&[u8]> {
        Some(b"text/html")
    }
    fn variable(&self, _name: &str) -> Option<&[u8]> {
        Some(b"")
    }
    fn note(&self, _name: &str) -> Option<&[u8]> {
        None
    }
    fn filename(&self) -> &[u8] {
        b"/srv/a"
    }
    fn handler(&self) -> &str {
        "modperl"
    }
    fn server_name(&self) -> &str {
        "localhost"
    }
    fn host(&self) -> &str {
        "asked"
    }
    fn pid(&self) -> u32 {
        7
    }
    fn keep_alive_requests(&self) -> u64 {
        3
    }
    fn connection_status(&self) -> u8 {
        b'+'
    }
}

fn entry() -> Entry {
    Entry { line: b"GET /a?x=1 HTTP/1.1", agent: Some(b"curl/7.88.1"), status: 200, bytes: 13 }
}

fn render(format: &str, entry: &Entry) -> String {
    let format = LogFormat::parse(format).unwrap();
    let mut out = Vec::new();
    format.render(entry, &mut TimeCache::default(), &mut out);
    let line = String::from_utf8(out).unwrap();
    line.strip_suffix('\n').unwrap().to_string()
}

#[test]
fn every_letter() {
    for (format, want) in [
        ("%h %l %u", "127.0.0.1 - -"),
        ("%a %A", "127.0.0.1 127.0.0.2"),
        ("\"%r\" %>s %s %b %B", "\"GET /a?x=1 HTTP/1.1\" 200 302 13 13"),
        ("%I %O %S", "100 250 350"),
        ("%D %T %{ms}T %{us}T", "2345678 2 2345 2345678"),
        ("%{User-Agent}i %{Referer}i", "curl/7.88.1 -"),
        ("%{Content-Type}o %{X}e %{N}n", "text/html - -"),
        ("%U%q %m %H", "/a?x=1 GET HTTP/1.1"),
        ("%p %{remote}p %P", "8080 38306 7"),
        ("%v %V %f %R %k %X", "localhost asked /srv/a modperl 3 +"),
        ("100%% \\t|", "100% \t|"),
        ("%{sec}t %{msec}t %{usec_frac}t", "1767323045 1767323045012 012345"),
        ("%{end:sec}t %{%Y}t", "1767323047 2026"),
        ("%404,500{User-Agent}i", "-"),
        ("%!404,500{User-Agent}i", "curl/7.88.1"),
        ("%200{User-Agent}i", "curl/7.88.1"),
    ] {
        assert_eq!(render(format, &entry()), want, "{format}");
    }
    let empty = Entry { bytes: 0, ..entry() };
    assert_eq!(render("%b %B", &empty), "- 0");
}

#[test]
fn the_combined_format_has_apaches_form() {
    let line = render("%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"", &entry());
    let form = r#"(?x)^127\.0\.0\.1\ -\ -\ \[0[123]/Jan/2026:\d\d:\d\d:05\ [+-]\d{4}\]
        \ "GET\ /a\?x=1\ HTTP/1\.1"
        \ 200\ 13\ "-"\ "curl/7\.88\.1"$"#;
    assert!(regex::Regex::new(form).unwrap().is_match(&line), "{line}");
}

#[test]
fn clients_cannot_forge_lines() {
    let evil = Entry { agent: Some(b"a\"b\\c\nd\x01\x7f\xff\t"), ..entry() };
    assert_eq!(render("%{User-Agent}i", &evil), "a\\\"b\\\\c\\nd\\x01\\x7f\\xff\\t");
}

#[test]
fn wrong_formats_are_explained() {
    for (format, part) in [
        ("%", "ends after"),
        ("%i", "needs a name"),
        ("%{x", "} is missing"),
        ("%Z", "%Z"),
        ("%{x}T", "x"),
    ] {
        let error = LogFormat::parse(format).unwrap_err();
        assert!(error.contains(part), "{format}: {error}");
    }
}

#[test]
fn a_second_is_formatted_once_and_renewed() {
    let mut times = TimeCache::default();
    let first = times.standard(1_767_323_045).to_string();
    assert_eq!(times.standard(1_767_323_045), first);
    assert_ne!(times.standard(1_767_323_046), first);
}

#[test]
fn error_lines_have_apaches_form() {
    let mut out = Vec::new();
    let line = ErrorLine {
        time_us: 1_767_323_045_012_345,
        module: "perl",
        level: LogLevel::Error,
        pid: 7,
        client: Some("127.0.0.1:38306".parse().unwrap()),
        message: b"died at \\x01\x01 line 3.\n\tmain::f called\n",
    };
    line.render(&mut out);
    let text = String::from_utf8(out).unwrap();
    let form = concat!(
        r"^\[(Thu|Fri|Sat) Jan 0[123] \d\d:\d\d:05\.012345 2026\] \[perl:error\] \[pid 7\] ",
        r"\[client 127\.0\.0\.1:38306\] died at \\\\x01\\x01 line 3\.\\n\\tmain::f called\n$"
    );
    assert!(regex::Regex::new(form).unwrap().is_match(&text), "{text}");
}

proptest! {
    /// Any format is refused or renders one line whose text outside the % is as it was.
    #[test]
    fn no_format_makes_it_panic(text in "\\PC*|(%[a-zA-Z%<>!{},0-9]|[a-z ]){0,12}") {
        let entry = Entry { line: b"GET / HTTP/1.1", agent: None, status: 200, bytes: 1 };
        let mut out = Vec::new();
        if let Ok(format) = LogFormat::parse(&text) {
            format.render(&entry, &mut TimeCache::default(), &mut out);
            prop_assert_eq!(out.last(), Some(&b'\n'));
        }
    }

    #[test]
    fn text_is_rendered_as_it_is(text in "[ !#-$&-\\[\\]-~]{0,40}") {
        let entry = Entry { line: b"GET / HTTP/1.1", agent: None, status: 200, bytes: 1 };
        let mut out = Vec::new();
        let doubled = text.replace('%', "%%");
        LogFormat::parse(&doubled).unwrap().render(&entry, &mut TimeCache::default(), &mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), text + "\n");
    }

    /// What a client sends is escaped: one line, printable, and nothing of it is lost.
    #[test]
    fn a_client_writes_no_lines_of_its_own(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut out = Vec::new();
        escaped(Some(&bytes), &mut out);
        prop_assert!(out.iter().all(|b| (b' '..=b'~').contains(b)), "{out:?}");
    }
}
