//! Command lines of httperf, and reports of fixed records.

use drom_load::{ErrorKind, Exchange, Record};

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn options(line: &str) -> Options {
    match parse(&words(line)).expect("a good command line") {
        Asked::Run(options) => *options,
        other => panic!("{other:?}"),
    }
}

fn refused(line: &str) -> (u8, String) {
    let Refusal { message, status } = parse(&words(line)).expect_err(line);
    (status, message.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn options_have_a_value_behind_or_after_an_equals_sign() {
    let given =
        options("--hog --server=a --port 81 --uri /x --num-conn 100 --num-call=2 --rate 10");
    assert_eq!((&*given.server, given.port, &*given.uri), ("a", 81, "/x"));
    assert_eq!((given.num_conns, given.num_calls), (100, 2));
    assert!((given.rate - 10.0).abs() < 1e-12 && given.missing.is_empty());
    let plain = options("");
    assert_eq!(plain, Options::default());
    assert_eq!(
        (plain.send_buffer, plain.recv_buffer, &*plain.server),
        (4_096, 16_384, "localhost")
    );
    assert!((options("--period=d0.02").rate - 50.0).abs() < 1e-9);
    assert_eq!(options("--client=1/4 -v -v").client, (1, 4));
}

#[test]
fn wrong_ones_end_with_1() {
    for (line, why) in [
        ("--num-conns x", "illegal number of connections x"),
        ("--port 65536", "illegal port number 65536"),
        ("--rate fast", "illegal request rate fast"),
        ("--http-version 2", "illegal version number 2"),
        ("--http-version 2.0", "--http-version 2.0: 1.0 and 1.1 are spoken"),
        ("--client 4/4", "illegal client 4/4"),
        ("--num 5", "option \"--num\" is not clear"),
        ("--nothing", "unrecognized option \"--nothing\""),
        ("http://a/", "unrecognized option \"http://a/\""),
        ("--uri", "option --uri needs a value"),
        ("--hog=1", "option --hog takes no value"),
    ] {
        assert_eq!(refused(line), (1, format!("httperf: {why}")), "{line}");
    }
    assert_eq!(parse(&words("-h")), Ok(Asked::Help));
    assert_eq!(parse(&words("--version")), Ok(Asked::Version));
}

#[test]
fn what_is_not_built_is_kept_by_name() {
    let missing = |line: &str| options(line).missing;
    assert_eq!(missing("--wsesspage=10,5 --servers=f"), ["wsesspage", "servers"]);
    assert_eq!(missing("--burst-length=4 --print-reply"), ["print-reply"]);
    let known = |name: &&&str| NAMES.iter().any(|(known, _)| *known == **name);
    assert_eq!(WITHOUT_EFFECT.iter().filter(known).count(), WITHOUT_EFFECT.len());
}

#[test]
fn tls_has_a_port_of_its_own() {
    assert_eq!(options("--ssl").port, 443);
    assert_eq!(options("--port=81 --ssl").port, 81);
    let given = options("--ssl-ciphers=A:B --ssl-cert=c --ssl-key=k --ssl-no-reuse");
    assert_eq!(given.ssl_ciphers.as_deref(), Some("A:B"));
    assert_eq!(given.ssl_certificate.zip(given.ssl_key), Some(("c".into(), "k".into())));
}

/// As httperf 0.9.0 asked for them.
#[test]
fn pages_of_a_set_are_httperfs() {
    let asked = |line: &str| -> Vec<String> {
        let calls = Calls::of(&options(line), "", &[]);
        let text = |request: &Vec<u8>| String::from_utf8_lossy(request).into_owned();
        let path = |text: String| text.split(' ').nth(1).map(str::to_owned);
        calls.requests.iter().map(text).filter_map(path).collect()
    };
    assert_eq!(
        asked("--num-conns=3 --num-calls=2 --wset=12,0.5 --uri=/p"),
        ["/p/0/0.html", "/p/0/1.html", "/p/0/1.html", "/p/0/2.html", "/p/0/2.html", "/p/0/3.html"]
    );
    assert_eq!(asked("--num-conns=2 --wset=1000,1"), ["/0/0/1.html", "/0/0/2.html"]);
    let third = asked("--num-conns=4 --wset=2000,1 --client=1/3");
    assert_eq!(third, ["/0/0/0/4.html", "/0/0/0/7.html", "/0/0/1/0.html", "/0/0/1/3.html"]);
}

#[test]
fn calls_are_as_many_as_asked_for() {
    let of = |line: &str| {
        let calls = Calls::of(&options(line), "/a\0/b\0/c\0", &[]);
        (calls.rounds, calls.length_max(), calls.requests.len(), calls.bursts.len())
    };
    assert_eq!(of("--num-conns=9"), (9, 1, 1, 0));
    assert_eq!(of("--num-conns=9 --num-calls=4"), (9, 4, 1, 2));
    assert_eq!(of("--num-conns=9 --num-calls=4 --rate=5"), (9, 4, 1, 2));
    assert_eq!(of("--num-conns=9 --num-calls=4 --rate=5 --burst=3"), (9, 4, 3, 4));
    assert_eq!(of("--num-conns=9 --wlog=y,f"), (9, 1, 3, 3));
    assert_eq!(of("--num-conns=9 --num-calls=2 --wlog=n,f"), (2, 2, 3, 3));
    assert_eq!(of("--wsess=5,7,0.5"), (5, 7, 1, 2));
}

/// The burst numbers that a scenario of one way asks for, and its pauses.
#[test]
fn bursts_of_a_round_are_httperfs() {
    let scenario = |line: &str| {
        let text = Calls::of(&options(line), "", &[]).scenario;
        let words = [("base = \"http://server\"\n", ""), ("[[step]]\n", ""), ("step.step", "s")];
        words.iter().fold(text, |text, (from, to)| text.replace(from, to))
    };
    let last = |number: u32| {
        let more = ["", " and 1 more at once", " and 2 more at once"][number as usize - 1];
        format!("name = \"GET /{more}\"\nurl = \"/{number}\"\n")
    };
    let burst = |number: u32| format!("[[s]]\n{}", last(number));
    let think = "[[s]]\nthink = \"500000us\"\n";
    let paused = scenario("--wsess=5,9,0.5 --burst-length=4");
    let expected = ["repeat = 2\n", &burst(1), &burst(3), think, &last(1)].concat();
    assert_eq!(paused, expected);
    let bursts = scenario("--num-conns=3 --rate=5 --num-calls=7 --burst-length=3");
    assert_eq!(bursts, ["repeat = 2\n", &burst(3), &last(1)].concat());
    let even = scenario("--num-conns=3 --rate=5 --num-calls=6 --burst-length=3");
    assert_eq!(even, ["repeat = 1\n", &burst(3), &last(3)].concat());
    assert!(!scenario("--wsess=5,7,0").contains("think"));
}

#[test]
fn a_log_of_sessions_is_a_way_for_each() {
    let text = "/a think=2\n /b\n /c method=POST contents=x=1\n/d\n\n/e\n/f method=HEAD\n";
    let read = sessions(text, "f", 0.0).expect("good sessions");
    let calls = Calls::of(&options("--wsesslog=9,0,f --method=PUT"), "", &read);
    let first = |row: usize| {
        let text = String::from_utf8_lossy(&calls.requests[row]).into_owned();
        text.lines().next().expect("a line").to_owned()
    };
    let lines: Vec<String> = (0..calls.requests.len()).map(first).collect();
    let expected = ["GET /a", "GET /b", "POST /c", "GET /d", "GET /e", "HEAD /f"];
    assert_eq!(lines, expected.map(|line| format!("{line} HTTP/1.1")));
    assert!(calls.requests[2].ends_with(b"\r\nContent-length: 3\r\n\r\nx=1"));
    assert_eq!(calls.bursts, [0..1, 1..3, 3..4, 4..5, 5..6]);
    assert_eq!((calls.rounds, calls.length(0), calls.length(4), calls.length(5)), (9, 4, 2, 2));
    let steps = "[[scenario.step]]\nname = \"GET /b and 1 more at once\"\nurl = \"/1\"\n\
                 [[scenario.step]]\nthink = \"2000000us\"\n";
    assert!(calls.scenario.contains(steps), "{}", calls.scenario);
    assert_eq!(calls.scenario.matches("[[scenario]]\n").count(), 2);
}

#[test]
fn an_address_with_colons_stands_in_brackets() {
    for (line, host) in [("::1", "[::1]"), ("[::1]", "[::1]"), ("a", "a"), ("1.2.3.4", "1.2.3.4")] {
        let given = options(&format!("--server {line}"));
        assert_eq!((&*given.server, &*given.host()), (line, host));
        let asked = String::from_utf8(request(&given)).expect("text");
        assert!(asked.contains(&format!("\r\nHost: {host}\r\n")), "{asked}");
    }
}

#[test]
fn requests_are_printed_by_their_numbers() {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let all = "SH0:GET / HTTP/1.1\r\nSH0:Host: a\r\nSH0:\r\nSS0: header 27 content 0\n";
    assert_eq!(printed(Printed::All, &[request]), all);
    assert_eq!(printed(Printed::Header, &[request]), all);
    assert!(printed(Printed::Body, &[request, request]).ends_with("\nSS1: header 27 content 0\n"));
    let body = printed(Printed::Body, &[b"POST / HTTP/1.1\r\n\r\na=1"]);
    assert_eq!(body, "SB0:a=1\nSS0: header 19 content 3\n");
    assert!(parse(&words("--print-request=x")).is_err());
}

#[test]
fn a_request_is_httperfs() {
    let text = |line: &str| String::from_utf8(request(&options(line))).expect("text");
    let plain = "GET / HTTP/1.1\r\nUser-Agent: httperf/0.9.0\r\nHost: localhost\r\n\r\n";
    assert_eq!((text(""), plain.len()), (plain.to_owned(), 62), "62 bytes in each old report");
    let other =
        text("--method=HEAD --http-version=1.0 --no-host --add-header=A:b\\nC:d\\n --uri=/x");
    assert_eq!(
        other,
        "HEAD /x HTTP/1.0\r\nUser-Agent: httperf/0.9.0\r\nConnection: keep-alive\r\nA:b\r\n\
         C:d\r\n\r\n"
    );
    assert!(text("--port=81 --server-name=b --server=a").contains("\r\nHost: b\r\n"));
}

#[test]
fn the_command_line_is_said_again() {
    let plain = "httperf --client=0/1 --server=localhost --port=80 --uri=/ --send-buffer=4096 \
                 --recv-buffer=16384 --num-conns=1 --num-calls=1\n";
    assert_eq!(echo(&options("")), plain);
    assert!(
        echo(&options("--hog -v --timeout 3")).starts_with("httperf --verbose --hog --timeout=3 ")
    );
    let rated = echo(&options("--timeout 5 --rate 150 --num-conn 100 --server a"));
    assert!(rated.starts_with("httperf --timeout=5 --client=0/1 --server=a "), "{rated}");
    assert!(rated.contains(" --uri=/ --rate=150 --send-buffer=4096 "), "{rated}");
    // As httperf 0.9.0 has printed them.
    let sessions = echo(&options("--rate 10 --burst-length 2 --wsess=2,4,0.2 --think-timeout 2"));
    assert_eq!(
        sessions,
        "httperf --think-timeout=2 --client=0/1 --server=localhost --port=80 --uri=/ --rate=10 \
         --send-buffer=4096 --recv-buffer=16384 --wsess=2,4,0.200 --burst-length=2\n"
    );
    let uneven = echo(&options("--period u0.1,0.2 --print-request=header --wset=12,0.5"));
    assert!(uneven.starts_with("httperf --print-request=header --client=0/1 "), "{uneven}");
    assert!(uneven.contains(" --period=u0.1,0.2 ") && uneven.ends_with(" --wset=12,0.500\n"));
}

/// Begun at; ready, first byte and end after, in milliseconds; place on its socket.
fn record(at: u64, [ready, first, ended]: [u64; 3], on_socket: u64) -> Record {
    let ns = |ms: u64| 1_000_000_000 + ms * 1_000_000;
    let exchange = Exchange {
        ready_ns: ns(at + ready),
        written_ns: ns(at + ready),
        first_byte_ns: ns(at + first),
        wire_bytes: 300,
        body_bytes: 100,
        ..Exchange::new(ns(at), ns(at))
    };
    Record {
        exchange,
        ended_ns: ns(at + ended),
        connection: 0,
        on_socket,
        status: 200,
        error: None,
        is_repeated: false,
        os_error: None,
        kept: false,
    }
}

fn failed(at: u64, error: ErrorKind, os_error: Option<i32>) -> Record {
    let mut record = record(at, [0, 0, 10], 0);
    (record.exchange.ready_ns, record.exchange.first_byte_ns) = (0, 0);
    Record { status: 0, error: Some(error), os_error, ..record }
}

fn figures(records: &[Record], cpu: Cpu) -> Figures {
    of_line("", records, cpu)
}

fn of_line(line: &str, records: &[Record], cpu: Cpu) -> Figures {
    let options = options(line);
    let calls = Calls::of(&options, "", &[]);
    Figures::of(&options, records, &calls, 0, cpu)
}

#[test]
fn a_report_has_httperfs_lines() {
    let mut records = vec![
        record(0, [1, 3, 4], 0),
        record(4, [0, 2, 6], 1),
        record(100, [2, 5, 6], 0),
        failed(200, ErrorKind::Connect, Some(111)),
        record(300, [1, 11, 50], 0),
        record(5_990, [1, 5, 10], 0),
    ];
    records[4].status = 404;
    let cpu = Cpu { user_s: 0.6, system_s: 1.2 };
    let figures = figures(&records, cpu);
    // Lives of 10, 6, 50 and 10 ms; 4 replies in 5 s; connects of 1, 2, 1 and 1;
    // responses of 2, 2, 3, 10, 4 and transfers of 1, 4, 1, 39, 5.
    let wanted = "\
Maximum connect burst length: 1

Total: connections 5 requests 5 replies 5 test-duration 6.000 s

Connection rate: 0.8 conn/s (1200.0 ms/conn, <=1 concurrent connections)
Connection time [ms]: min 6.0 avg 19.0 max 50.0 median 10.5 stddev 20.8
Connection time [ms]: connect 1.2
Connection length [replies/conn]: 1.250

Request rate: 0.8 req/s (1200.0 ms/req)
Request size [B]: 62.0

Reply rate [replies/s]: min 0.8 avg 0.8 max 0.8 stddev 0.0 (1 samples)
Reply time [ms]: response 4.2 transfer 10.0
Reply size [B]: header 200.0 content 100.0 footer 0.0 (total 300.0)
Reply status: 1xx=0 2xx=4 3xx=0 4xx=1 5xx=0

CPU time [s]: user 0.60 system 1.20 (user 10.0% system 20.0% total 30.0%)
Net I/O: 0.3 KB/s (0.0*10^6 bps)

Errors: total 1 client-timo 0 socket-timo 0 connrefused 1 connreset 0
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
";
    assert_eq!(report(&figures), wanted);
}

/// 21 requests of 1479 bytes were 70.0 to httperf 0.9.0, and replies of 198678 bytes 9460.0.
#[test]
fn sizes_are_cut_off_to_whole_bytes() {
    let mut records = vec![record(0, [1, 3, 4], 0), record(9, [1, 3, 4], 0)];
    records[0].exchange.body_bytes = 101;
    let text = report(&figures(&records, Cpu::default()));
    let line = "Reply size [B]: header 199.0 content 100.0 footer 0.0 (total 299.0)\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("Request size [B]: 62.0\n"), "{text}");
}

#[test]
fn errors_have_their_places() {
    let of = |kind, os_error| {
        let records = [failed(0, kind, os_error)];
        let cpu = Cpu::default();
        report(&figures(&records, cpu))
    };
    assert!(of(ErrorKind::Timeout, None).contains("Errors: total 1 client-timo 1 "));
    assert!(of(ErrorKind::Closed, Some(104)).contains(" connreset 1\n"));
    assert!(of(ErrorKind::Write, Some(32)).contains(" connreset 1\n"));
    assert!(of(ErrorKind::Connect, Some(110)).contains(" socket-timo 1 "));
    // What no address was left for has a place of its own, and httperf never uses it.
    assert!(of(ErrorKind::Connect, Some(99)).contains(" addrunavail 0 ftab-full 0 other 1\n"));
    assert!(of(ErrorKind::Closed, None).contains(" connreset 1\n"));
    let mut cut = failed(0, ErrorKind::Closed, None);
    cut.exchange.status = 200;
    assert!(report(&figures(&[cut], Cpu::default())).contains("Errors: total 0 "));
}

#[test]
fn connections_at_once_are_those_that_lived_together() {
    let mut records = vec![record(0, [1, 2, 50], 0), record(10, [1, 2, 30], 0)];
    records[1].connection = 1;
    let figures = Figures { burst: 3, ..figures(&records, Cpu::default()) };
    assert_eq!((figures.most_at_once, figures.burst, figures.samples), (2, 3, 0));
}

#[test]
fn sessions_end_with_their_last_call_or_a_failure() {
    let of = |mut record: Record, user: u32| {
        record.exchange.user = user;
        record
    };
    let mut records = vec![
        of(record(0, [1, 3, 4], 0), 0),
        of(record(100, [0, 2, 6], 1), 0),
        of(record(200, [1, 3, 10], 0), 1),
        of(record(200, [1, 3, 20], 0), 0),
        of(failed(300, ErrorKind::Timeout, None), 1),
        of(record(1_300, [0, 3, 20], 0), 0),
        of(record(1_400, [0, 3, 20], 0), 0),
    ];
    records[4].exchange.begun_ns += 5;
    let figures = of_line("--wsess=9,2,1", &records, Cpu::default());
    let text = report(&figures);
    let wanted = "\n\nSession rate [sess/s]: min 0.00 avg 1.41 max 0.00 stddev 0.00 (2/3)\n\
                  Session: avg 1.50 connections/session\nSession lifetime [s]: 0.6\n\
                  Session failtime [s]: 0.1\nSession length histogram: 0 1 2\n";
    assert!(text.ends_with(wanted), "{text}");
}
