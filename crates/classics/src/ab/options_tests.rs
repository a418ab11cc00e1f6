//! Command lines of ab, and what ab 2.3 of httpd 2.4 did with them.

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

pub fn options(line: &str) -> Options {
    match parse(&words(line)).expect("a good command line") {
        Asked::Run(options) => *options,
        other => panic!("{other:?}"),
    }
}

fn refusal(line: &str) -> (u8, String) {
    let Refusal { message, status } = parse(&words(line)).expect_err("a bad command line");
    (status, message.lines().next().unwrap_or_default().to_owned())
}

const URL: &str = "http://127.0.0.1:8080/x?y";

#[test]
fn values_stand_in_the_word_or_behind_it() {
    for line in ["-n100 -kc10", "-n 100 -k -c 10", "-kn100 -c10", "-kc 10 -n 100"] {
        let options = options(&format!("{line} {URL}"));
        assert_eq!((options.requests, options.concurrency), (100, 10), "{line}");
        assert!(options.keepalive);
    }
}

#[test]
fn without_options_it_is_one_get() {
    let options = options(URL);
    assert_eq!((options.requests, options.concurrency, &*options.method), (1, 1, "GET"));
    assert_eq!((options.timeout, options.limit), (Duration::from_secs(30), None));
    assert!(!options.keepalive && options.percentiles && options.confidence);
    assert_eq!((options.heartbeat, options.html), (None, None));
}

#[test]
fn a_time_limit_is_50_000_requests_unless_n_follows() {
    let of = |line: &str| options(&format!("{line} {URL}"));
    let limit = Some(Duration::from_secs(5));
    assert_eq!((of("-t 5").requests, of("-t 5").limit), (50_000, limit));
    assert_eq!((of("-n 7 -t 5").requests, of("-t 5 -n 7").requests), (50_000, 7));
    assert_eq!((of("-t 0").requests, of("-t 0").limit), (50_000, None));
}

#[test]
fn lines_of_progress_come_with_more_than_150_requests() {
    let of = |line: &str| options(&format!("{line} {URL}")).heartbeat;
    assert_eq!((of("-n 150"), of("-n 151"), of("-n 5000")), (None, Some(100), Some(500)));
    assert_eq!((of("-n 5000 -q"), of("-t 1")), (None, Some(5_000)));
}

#[test]
fn wrong_command_lines_end_as_they_did() {
    let usage = |line: &str, what: &str| {
        assert_eq!(refusal(line), (22, format!("ab: {what}")), "{line}");
    };
    usage("", "wrong number of arguments");
    usage("a/ b/", "wrong number of arguments");
    usage("a/ -n 5", "wrong number of arguments");
    usage("http://127.0.0.1", "invalid URL");
    usage("http:///x", "invalid URL");
    usage("-n", "option requires an argument -- n");
    usage("-Q a/", "illegal option -- Q");
    usage("-c 3 -n 2 a/", "Cannot use concurrency level greater than total number of requests");
    usage("-c 0 a/", "Invalid Concurrency [Range 0..200000]");
    usage("-c -1 a/", "Invalid Concurrency [Range 0..200000]");
    usage("-n 500000 -c 200001 a/", "Invalid Concurrency [Range 0..200000]");
    let value = |line: &str, what: &str| assert_eq!(refusal(line), (1, what.to_owned()), "{line}");
    value("-n 0 a/", "Invalid number of requests");
    value("-n x a/", "Invalid number of requests");
    value("-p f -i a/", "Cannot mix HEAD with other methods");
    value("-i -p f a/", "Cannot mix POST with other methods");
    value("-m GET -u f a/", "Cannot mix PUT with other methods");
    value("-t -1 a/", "Invalid negative timelimit");
    value("-s 0 a/", "Invalid timeout: -s takes at least 1 second");
    value(&format!("-A {} a/", "x".repeat(1_000)), "Authentication credentials too long");
    assert_eq!(refusal("-h").0, 22);
    assert!(refusal("-h").1.starts_with("Usage: ab [options]"));
}

#[test]
fn a_wrong_one_is_told_what_there_is() {
    let refusal = parse(&words("-Q")).expect_err("unknown");
    for letter in LETTERS.chars().filter(|letter| *letter != ':') {
        assert!(refusal.message.contains(&format!("\n    -{letter} ")), "{letter}");
    }
}

#[test]
fn the_version_is_html_after_w() {
    assert_eq!(parse(&words("-V")), Ok(Asked::Version { html: false }));
    assert_eq!(parse(&words("-V -w")), Ok(Asked::Version { html: false }));
    assert_eq!(parse(&words("-w -V")), Ok(Asked::Version { html: true }));
    assert_eq!(parse(&words("--help")), Ok(Asked::Help));
}

#[test]
fn urls_come_apart() {
    let of = |text: &str| options(text).url;
    let url = of("a.example/");
    assert_eq!((&*url.host, url.port, &*url.path, url.tls), ("a.example", 80, "/", false));
    let url = of("https://[::1]:8443/x:y");
    assert_eq!((&*url.host, url.port, &*url.path, url.tls), ("[::1]", 8443, "/x:y", true));
    assert_eq!((of("https://a/").port, of("http://[::1]/").port), (443, 80));
    assert_eq!(
        (of(URL).host_field(), of("a/").host_field()),
        ("127.0.0.1:8080".into(), "a".into())
    );
    for bad in ["http://a:0/", "http://a:x/", "ftp://a/", "http://u@a/", "a"] {
        assert_eq!(refusal(bad).0, 22, "{bad}");
    }
}

#[test]
fn table_attributes_mean_html() {
    let html = options(&format!("-x border=1 -y a {URL}")).html.expect("HTML");
    assert_eq!((&*html.table, &*html.row, &*html.cell), ("border=1", "a", "bgcolor=white"));
    assert!(options(&format!("--native -w {URL}")).native);
}
