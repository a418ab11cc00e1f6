//! Command lines of http_load, and reports of fixed records.

use drom_load::{ErrorKind, Exchange, Record};

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn options(line: &str) -> Options {
    match parse(&words(line)).expect("a good command line") {
        Asked::Run(options) => *options,
        Asked::Help => panic!("asked for help"),
    }
}

#[test]
fn options_can_be_cut_short() {
    let options = options("-p 10 -s 60 -v -c -t -timeo 5 urls");
    assert_eq!((options.start, options.end), (Start::Parallel(10), End::Seconds(60)));
    assert!(options.verbose && options.checksum && !options.jitter);
    assert_eq!(options.throttle_bps, Some(3_360.0), "-t is -throttle, not -timeout");
    assert_eq!((options.timeout, &*options.url_file), (Duration::from_secs(5), "urls"));
    let rate = self::options("-r 5 -j -f 100 -pr a:81 -si ips --native urls");
    assert_eq!((rate.start, rate.end), (Start::Rate(5), End::Fetches(100)));
    assert_eq!((rate.proxy, rate.sip), (Some(("a".into(), 81)), Some("ips".into())));
    assert!(rate.jitter && rate.native);
}

#[test]
fn wrong_ones_end_with_1() {
    let refused = |line: &str| parse(&words(line)).expect_err(line);
    for line in [
        "",
        "urls",
        "-p 1 urls",
        "-f 1 urls",
        "-p 1 -f 1",
        "-p 1 -f 1 a b",
        "-p 1 -f 1 -x urls",
        "-p 1 -j -f 1 urls",
        "-p 1 -f 1 urls -v",
    ] {
        assert_eq!(refused(line), Refusal::new(1, USAGE), "{line}");
    }
    for (line, why) in [
        ("-p 0 -f 1 urls", "parallel must be at least 1"),
        ("-r 0 -f 1 urls", "rate must be at least 1"),
        ("-r 1001 -f 1 urls", "rate may be at most 1000"),
        ("-p 1 -f x urls", "fetches must be at least 1"),
        ("-p 1 -s -5 urls", "seconds must be at least 1"),
    ] {
        assert_eq!(refused(line), Refusal::new(1, format!("http_load: {why}\n")), "{line}");
    }
    assert_eq!(parse(&words("--help")), Ok(Asked::Help));
}

#[test]
fn a_rate_is_whole_milliseconds() {
    let interval = |rate: u32| options(&format!("-r {rate} -f 1 u")).interval_ms();
    assert_eq!([100, 300, 600, 1_000].map(interval), [Some(10), Some(3), Some(1), Some(1)]);
    assert_eq!(options("-p 1 -f 1 u").interval_ms(), None);
}

#[test]
fn a_file_has_a_url_a_line() {
    let found = urls("f", "http://a\nhttp://b:81/x?y\nhttps://c/z\n").expect("good");
    let of = |url: &Url| (url.tls, url.host.clone(), url.port, url.path.clone());
    assert_eq!(of(&found[0]), (false, "a".into(), 80, "/".into()));
    assert_eq!(of(&found[1]), (false, "b".into(), 81, "/x?y".into()));
    assert_eq!(of(&found[2]), (true, "c".into(), 443, "/z".into()));
    let found = urls("f", "http://[::1]:8080/x\nhttps://[::1]\n").expect("good");
    assert_eq!(of(&found[0]), (false, "[::1]".into(), 8_080, "/x".into()));
    assert_eq!(of(&found[1]), (true, "[::1]".into(), 443, "/".into()));
    assert_eq!(host_and_port("[::1]:81"), Some(("[::1]", "81")));
    assert_eq!((host_and_port("a"), host_and_port("[::1]")), (None, None));
    let refused = |text: &str| urls("f", text).expect_err(text).message;
    for text in ["http://[::1/", "http://[::1]:x/", "http://a:1:2/"] {
        assert_eq!(refused(text), format!("http_load: no port - {text} (f:1)\n"));
    }
    assert_eq!(refused("http://a/\n\n"), "http_load: an empty line -  (f:2)\n");
    assert_eq!(refused("ftp://a"), "http_load: unknown protocol - ftp://a (f:1)\n");
    assert_eq!(refused("http://a:x/"), "http_load: no port - http://a:x/ (f:1)\n");
    assert_eq!(refused(""), "http_load: there is no URL in f\n");
}

#[test]
fn a_request_has_a_host_without_port() {
    let url = &urls("f", "http://a:81/x").expect("good")[0];
    let text = |line: &str| String::from_utf8(request(&options(line), url)).expect("text");
    assert!(text("-p 1 -f 1 u").starts_with("GET /x HTTP/1.0\r\nHost: a\r\nUser-Agent: http_load"));
    let proxied = text("-proxy p -p 1 -f 1 u");
    assert!(proxied.starts_with("GET http://a:81/x HTTP/1.0\r\n") && proxied.ends_with("\r\n\r\n"));
}

/// Begun at, connected and answered after, ended after, in milliseconds; bytes.
fn record(at: u64, [written, first, ended]: [u64; 3], body_bytes: u64) -> Record {
    let ns = |ms: u64| 1_000_000_000 + ms * 1_000_000;
    let exchange = Exchange {
        connected_ns: ns(at + written),
        ready_ns: ns(at + written),
        written_ns: ns(at + written),
        first_byte_ns: ns(at + first),
        body_bytes,
        ..Exchange::new(ns(at), ns(at))
    };
    Record {
        exchange,
        ended_ns: ns(at + ended),
        connection: 0,
        on_socket: 0,
        status: 200,
        error: None,
        is_repeated: false,
        os_error: None,
        kept: false,
    }
}

fn four() -> Vec<Record> {
    let mut records = vec![
        record(0, [1, 3, 5], 1_000_000),
        record(3, [2, 5, 6], 1_000_000),
        record(10, [1, 2, 4], 999),
        record(15, [3, 0, 60], 0),
    ];
    records[2].status = 404;
    records[3].exchange.first_byte_ns = 0;
    (records[3].status, records[3].error) = (0, Some(ErrorKind::Timeout));
    records
}

#[test]
fn a_report_has_http_loads_lines() {
    let figures = Figures::of(&options("-p 2 -f 4 u"), &four(), None);
    let wanted = "\
4 fetches, 2 max parallel, 2.001e+06 bytes, in 0.075 seconds
500250 mean bytes/connection
53.3333 fetches/sec, 2.668e+07 bytes/sec
msecs/connect: 1.75 mean, 3 max, 1 min
msecs/first-response: 2 mean, 3 max, 1 min
1 timeouts
2 bad byte counts
HTTP response codes:
  code 200 -- 2
  code 404 -- 1
";
    assert_eq!(report(&figures), wanted);
    let url = urls("f", "http://u").expect("good");
    assert_eq!(
        complaints(&options("-p 2 -f 4 u"), &url, &four()),
        "http://u: byte count wrong\nhttp://u: timed out\nhttp://u: byte count wrong\n"
    );
}

#[test]
fn each_url_is_compared_with_its_own_first() {
    let of = |row: u32, body_bytes: u64, body_hash: u64| {
        let mut record = record(0, [1, 3, 5], body_bytes);
        (record.exchange.row, record.exchange.body_hash) = (row, body_hash);
        record
    };
    let records = [of(1, 7, 70), of(0, 5, 50), of(1, 7, 71), of(0, 6, 50), of(1, 8, 70)];
    let urls = urls("f", "http://a\nhttp://b").expect("good");
    let (sizes, sums) = (options("-p 1 -f 5 u"), options("-p 1 -f 5 -c u"));
    assert!(report(&Figures::of(&sizes, &records, None)).contains("\n2 bad byte counts\n"));
    assert!(
        report(&Figures::of(&sums, &records, None)).contains("\n1 bad checksums\nHTTP response")
    );
    let sizes = complaints(&sizes, &urls, &records);
    assert_eq!(sizes, "http://a: byte count wrong\nhttp://b: byte count wrong\n");
    assert_eq!(complaints(&sums, &urls, &records), "http://b: checksum wrong\n");
}

#[test]
fn a_handshake_is_a_part_of_the_wait() {
    let mut secured = record(0, [4, 6, 9], 10);
    secured.exchange.connected_ns -= 3_000_000;
    let text = report(&Figures::of(&options("-p 1 -f 1 u"), &[secured], None));
    assert!(text.contains("msecs/connect: 1 mean") && text.contains("first-response: 5 mean"));
}

#[test]
fn jittered_starts_are_some_ten_per_cent_apart() {
    let starts = options("-r 100 -j -f 2000 u").jittered_ns(7).expect("not too many");
    assert_eq!((starts.len(), starts[0]), (2_000, 0));
    let gaps: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (9_000_000..=11_000_000).contains(gap)));
    assert!(gaps.iter().any(|gap| *gap < 9_100_000) && gaps.iter().any(|gap| *gap > 10_900_000));
    let starts = options("-r 100 -j -s 2 u").jittered_ns(7).expect("not too many");
    assert!((180..=224).contains(&starts.len()) && starts.iter().all(|ns| *ns < 2_000_000_000));
    assert!(options("-r 1000 -j -s 10000000 u").jittered_ns(7).is_err());
}

#[test]
fn ciphers_are_named_that_cannot_be_had() {
    assert!(cipher_note("fastsec").contains(" -cipher fastsec (RC4-MD5) cannot be had"));
    assert!(cipher_note("X").starts_with("http_load: -cipher X cannot be had and"));
}

#[test]
fn when_the_seconds_are_over_the_rest_is_thrown_away() {
    let mut records = four();
    records.push(record(990, [1, 3, 20], 1_000_000));
    let figures = Figures::of(&options("-r 100 -s 1 u"), &records, None);
    assert_eq!((figures.fetches, figures.seconds), (4, 1.0));
    // Stopped by somebody, it lasted as long as it did.
    let figures = Figures::of(&options("-p 2 -s 20 u"), &four(), Some(0.5));
    assert_eq!(figures.seconds, 0.5);
    // The clock of a rate began an interval before.
    let figures = Figures::of(&options("-r 100 -f 5 u"), &records, None);
    assert!((figures.seconds - 1.02).abs() < 1e-9, "{}", figures.seconds);
}

#[test]
fn nothing_done_is_little_to_say() {
    let none = Figures { seconds: 1.0, ..Figures::default() };
    let wanted = "0 fetches, 0 max parallel, 0 bytes, in 1 seconds\n0 fetches/sec, 0 bytes/sec\n\
                  HTTP response codes:\n";
    assert_eq!(report(&none), wanted);
}
