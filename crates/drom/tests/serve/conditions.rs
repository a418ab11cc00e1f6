//! Conditions, methods and statuses without a body, beside what Apache 2.4 with mod_cgi and
//! mod_perl 2.0.12 answers to the same requests.

use crate::support::{Answer, Server};

const VALIDATED: &str = "print \"Content-type: text/plain\\nETag: \\\"abc\\\"\\nX-A: 1\\n\
    Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT\\n$ENV{QUERY_STRING}\\n\\nbody\\n\";\n";
const SAME: &str = "If-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT";
const BEFORE: &str = "If-Modified-Since: Mon, 01 Jan 2024 03:04:05 GMT";

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Answer {
    let mut client = server.connect();
    let fields = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
    client.send(&format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
    let answer = client.answer_to(method).unwrap_or_else(|| panic!("{method} {path}: no answer"));
    if answer.header("Connection") != Some("close") {
        // What came was the whole of it: the connection is in step.
        client.send("GET /in-step HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.answer().map(|a| a.status), Some(404), "{method} {path}");
    }
    answer
}

#[test]
fn conditions_hold_for_what_scripts_print() {
    let cgi = format!("#!/usr/bin/perl\n{VALIDATED}");
    let server = Server::start("", &[("cgi-bin/v.pl", &cgi), ("perl/v.pl", VALIDATED)]);
    for path in ["/cgi-bin/v.pl?X-B:2", "/registry/v.pl?X-B:2"] {
        for (fields, status) in [
            ("", 200),
            ("If-None-Match: \"abc\"", 304),
            ("If-None-Match: \"x\"\r\nIf-None-Match: W/\"abc\"", 304),
            ("If-None-Match: \"x\"", 200),
            (SAME, 304),
            (BEFORE, 200),
            (&format!("If-None-Match: \"abc\"\r\n{BEFORE}"), 200),
            ("If-Match: \"abc\"", 200),
            ("If-Match: \"x\"", 412),
            ("If-Unmodified-Since: Mon, 01 Jan 2024 03:04:05 GMT", 412),
        ] {
            for method in ["GET", "HEAD"] {
                let answer = ask(&server, method, path, fields);
                assert_eq!(answer.status, status, "{method} {path} {fields}");
                assert_eq!(answer.header("X-A"), Some("1"));
            }
        }
        let answer = ask(&server, "GET", path, "If-None-Match: \"abc\"");
        assert_eq!(answer.header("ETag"), Some("\"abc\""));
        assert_eq!(answer.header("Last-Modified"), Some("Tue, 02 Jan 2024 03:04:05 GMT"));
        assert_eq!((answer.header("Content-Type"), answer.header("Content-Length")), (None, None));
        assert_eq!(ask(&server, "POST", path, "If-None-Match: \"abc\"").status, 200);
    }
    // A script that says its status means it.
    for path in ["/cgi-bin/v.pl?Status:200", "/registry/v.pl?Status:200"] {
        assert_eq!(ask(&server, "GET", path, "If-None-Match: \"abc\"").status, 200);
    }
    let page = ask(&server, "GET", "/cgi-bin/v.pl?X-B:2", "If-Match: \"x\"");
    assert!(page.text().contains("Precondition Failed") && page.header("ETag").is_none());
    let bare = ask(&server, "GET", "/registry/v.pl?X-B:2", "If-Match: \"x\"");
    assert_eq!((bare.text().as_str(), bare.header("ETag")), ("", Some("\"abc\"")));
}

#[test]
fn conditions_of_files() {
    let server = Server::start("TypesConfig /etc/mime.types\n", &[("htdocs/f.txt", "text\n")]);
    let etag = ask(&server, "GET", "/f.txt", "").header("ETag").unwrap().to_owned();
    let etag = etag.trim_start_matches("W/"); // a young file's is weak
    let twice = format!("If-None-Match: \"x\"\r\nIf-None-Match: {etag}");
    assert_eq!(ask(&server, "GET", "/f.txt", &twice).status, 304);
    assert_eq!(ask(&server, "POST", "/f.txt", &format!("If-None-Match: W/{etag}")).status, 200);
    let failed = ask(&server, "GET", "/f.txt", "If-Match: \"x\"");
    assert_eq!((failed.status, failed.text().as_str()), (412, ""));
    assert_eq!(failed.header("Content-Type"), Some("text/plain"));
    assert!(failed.header("ETag").is_some() && failed.header("Last-Modified").is_some());
    for (range, status) in
        [("bytes=0-1,", 206), ("Bytes=0-1", 206), ("bytes=0-0\r\nRange: bytes=2-2", 200)]
    {
        assert_eq!(ask(&server, "GET", "/f.txt", &format!("Range: {range}")).status, status);
    }
}

#[test]
fn methods_that_no_file_answers() {
    let config = "<Location /perl>\nSetHandler perl-script\nPerlResponseHandler ModPerl::Registry\n\
        Options +ExecCGI\n</Location>\nAlias /perl/ {}/perl/\n";
    let files = [("htdocs/f.txt", "text\n"), ("htdocs/dir/x", ""), ("perl/dir/x", "")];
    let server = Server::start(config, &files);
    for path in ["/f.txt", "/nothing", "/dir/", "/f.txt/more"] {
        for (method, status) in
            [("PUT", 405), ("DELETE", 405), ("PROPFIND", 405), ("BREW", 501), ("get", 501)]
        {
            let answer = ask(&server, method, path, "");
            assert_eq!(answer.status, status, "{method} {path}");
            assert_eq!(answer.header("Allow"), Some("HEAD,GET,POST,OPTIONS"));
        }
        let options = ask(&server, "OPTIONS", path, "");
        assert_eq!((options.status, options.text().as_str()), (200, ""), "{path}");
        assert_eq!(options.header("Allow"), Some("HEAD,GET,POST,OPTIONS"));
    }
    assert_eq!(ask(&server, "OPTIONS", "/dir", "").status, 301);
    assert_eq!(ask(&server, "PUT", "/cgi-bin/nothing", "").status, 404);
    assert_eq!(ask(&server, "GET", "/dir/", "").status, 403);
    assert_eq!(ask(&server, "GET", "/registry/dir/", "").status, 404);
    assert_eq!(ask(&server, "GET", "/registry/nothing", "").status, 404);
    assert_eq!(ask(&server, "DELETE", "/registry/nothing", "").status, 405);
    let all = ask(&server, "OPTIONS", "*", "");
    assert_eq!((all.status, all.header("Allow")), (200, None));
}

#[test]
fn a_file_that_may_not_be_read_is_refused_whatever_is_asked_of_it() {
    // Root may read everything, so the workers must not be root.
    // SAFETY: no pointers.
    let is_root = unsafe { libc::geteuid() } == 0;
    let user = if is_root { "User nobody\nGroup nogroup\n" } else { "" };
    let server = Server::start(user, &[("htdocs/secret", "secret\n")]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(server.path("htdocs/secret"), mode).unwrap();
    for (method, fields) in [("GET", ""), ("HEAD", ""), ("HEAD", "If-None-Match: *"), ("POST", "")]
    {
        assert_eq!(ask(&server, method, "/secret", fields).status, 403, "{method} {fields}");
    }
    assert_eq!(ask(&server, "OPTIONS", "/secret", "").status, 200);
}

#[test]
fn statuses_without_a_body_have_none() {
    let script = "print \"Status: $ENV{QUERY_STRING}\\nContent-type: text/plain\\n\
        Content-Encoding: x\\nETag: \\\"abc\\\"\\n\\n\", 'x' x 200_000;\n";
    let cgi = format!("#!/usr/bin/perl\n{script}");
    let handler =
        "package My::Bare; sub handler { my $r = shift; my ($how, $n) = split /,/, $r->args;
        $r->headers_out->set(ETag => '\"abc\"'); $r->content_type('text/plain');
        return $n if $how eq 'return'; $r->status($n); $r->print('x' x 200_000); return 0 } 1;\n";
    let config = "<Location /h>\nSetHandler modperl\nPerlResponseHandler My::Bare\n</Location>\n";
    let files = [("cgi-bin/s.pl", &cgi[..]), ("perl/s.pl", script), ("lib/My/Bare.pm", handler)];
    let server = Server::start(config, &files);
    for status in [204, 304] {
        for path in ["/cgi-bin/s.pl?", "/registry/s.pl?", "/h?return,", "/h?status,"] {
            let answer = ask(&server, "GET", &format!("{path}{status}"), "");
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(answer.header("ETag"), Some("\"abc\""), "{path}{status}");
            for name in ["Content-Type", "Content-Length", "Transfer-Encoding"] {
                assert_eq!(answer.header(name), None, "{path}{status} {name}");
            }
        }
    }
}

#[test]
fn a_status_that_is_none_is_500_with_what_the_script_printed() {
    let script = "print \"Content-type: text/plain\\nStatus: $ENV{QUERY_STRING}\\n\\nbody\\n\";\n";
    let cgi = format!("#!/usr/bin/perl\n{script}");
    let server = Server::start("", &[("cgi-bin/s.pl", &cgi), ("perl/s.pl", script)]);
    for path in ["/cgi-bin/s.pl", "/registry/s.pl"] {
        for (status, line) in [
            ("abc", "500 Internal Server Error"),
            ("", "500 Internal Server Error"),
            ("99", "500 Internal Server Error"),
            ("1000", "500 Internal Server Error"),
            ("-5", "500 Internal Server Error"),
            ("0", "500 Internal Server Error"),
            ("100", "500 Internal Server Error"), // not Apache's: see docs/serve.md
            ("200abc", "200 OK"),
            ("404", "404 Not Found"),
            ("299_Odd", "299 "),
        ] {
            let answer = ask(&server, "GET", &format!("{path}?{status}"), "");
            let (got, want) = (answer.head.lines().next().unwrap(), format!("HTTP/1.1 {line}"));
            assert!(got.starts_with(&want), "{path}?{status}: {got}");
            assert!(!got.contains("abc"), "{path}?{status}: {got}");
            assert_eq!(answer.text(), "body\n", "{path}?{status}");
            assert_eq!(answer.header("Content-Type"), Some("text/plain"), "{path}?{status}");
        }
        assert!(server.logged("Bad status=abc"));
    }
}

#[test]
fn trace_and_connect_are_refused_by_name() {
    let files = [("htdocs/f.txt", "text\n"), ("perl/s.pl", "print \"Content-type: x/y\\n\\n\";")];
    let server = Server::start("", &files);
    for path in ["/f.txt", "/nothing", "/registry/s.pl", "/cgi-bin/nothing"] {
        let answer = ask(&server, "TRACE", path, "");
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(answer.header("Allow"), Some("HEAD,GET,POST,OPTIONS"), "{path}");
        assert_eq!(answer.header("Connection"), None, "{path}: it is a request like others");
        assert!(answer.text().contains("The requested method TRACE is not"), "{}", answer.text());
    }
    let body = ask(&server, "TRACE", "/f.txt", "Content-Length: 3\r\n\r\nabc");
    assert_eq!((body.status, body.header("Connection")), (405, Some("close")));
    assert_eq!(ask(&server, "TRACE", "*", "").status, 400);
    assert_eq!(ask(&server, "CONNECT", "/f.txt", "").status, 400);
    let tunnel = ask(&server, "CONNECT", "x:80", "");
    assert_eq!((tunnel.status, tunnel.header("Allow")), (405, Some("HEAD,GET,POST,OPTIONS")));
    assert!(tunnel.text().contains("The requested method CONNECT is not"), "{}", tunnel.text());
}

#[test]
fn dates_and_ranges_are_read_as_loosely_as_by_apache() {
    let server = Server::start("", &[("htdocs/f.txt", "0123456789\n")]);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_704_164_645);
    std::fs::File::options()
        .write(true)
        .open(server.path("htdocs/f.txt"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    for (date, status) in [
        ("Tue, 02 Jan 2024 03:04:05 GMT", 304),
        ("Mon, 02 Jan 2024 03:04:05 GMT", 304), // the weekday says nothing
        ("Xyz, 02 Jan 2024 03:04:05 PST", 304),
        ("Monday, 02-Jan-24 03:04:05 GMT", 304),
        ("Mon Jan  2 03:04:05 2024", 304),
        ("Tue, 2 Jan 2024 03:04:05 GMT", 304),
        ("Tue, 02 Jan 2024 03:04:60 GMT", 304),
        ("02 Jan 2024 03:04:05 GMT", 200),
        ("Tue,  2 Jan 2024 03:04:05 GMT", 200),
        ("Tue, 02 Jan 2024 03:04:05", 200),
        ("Tue, 02 jan 2024 03:04:05 GMT", 200),
        ("Tue, 31 Feb 2024 03:04:05 GMT", 200),
        ("Tue, 02 Jan 2024 24:04:05 GMT", 200),
    ] {
        let fields = format!("If-Modified-Since: {date}");
        assert_eq!(ask(&server, "GET", "/f.txt", &fields).status, status, "{date}");
    }
    for (range, status) in [
        ("bytes=0-1", 206),
        ("bytes= 0-1", 200),
        ("bytes=\t0-1", 200),
        ("bytes= -3", 200),
        ("bytes=0-1, 3-4", 200),
        ("bytes=0-1 ,3-4", 200),
        ("bytes=0-1,,3-4", 206),
        ("bytes=0-1,,", 206),
        ("bytes=,0-1", 200),
        ("bytes=", 200),
        ("bytes=50-", 416),
    ] {
        let answer = ask(&server, "GET", "/f.txt", &format!("Range: {range}"));
        assert_eq!(answer.status, status, "{range}");
    }
}
