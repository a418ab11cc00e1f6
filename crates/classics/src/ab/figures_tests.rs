//! Reports of fixed records. The figures were worked out from the definitions apart from this code.

use std::time::Duration;

use drom_load::Exchange;

use super::{super::tests::options, *};
use crate::{WallClock, ab};

const MS: u64 = 1_000_000;

/// Milliseconds from the begin to the write, the first byte and the end; bytes of the body.
fn record(at_ms: u64, [written, first, ended]: [f64; 3], body_bytes: u64) -> Record {
    let at = |ms: f64| at_ms * MS + (ms * 1e6).round() as u64;
    let exchange = Exchange {
        ready_ns: at(written),
        written_ns: at(written),
        sent_ns: at(written),
        first_byte_ns: at(first),
        wire_bytes: body_bytes + 100,
        body_bytes,
        ..Exchange::new(at(0.0), at(0.0))
    };
    Record {
        exchange,
        ended_ns: at(ended),
        connection: 0,
        on_socket: 0,
        status: 200,
        error: None,
        is_repeated: false,
        os_error: None,
        kept: false,
    }
}

fn failed(error: ErrorKind, os_error: Option<i32>, body_bytes: u64) -> Record {
    let record = record(90, [0.5, 1.0, 2.0], body_bytes);
    Record { status: 0, error: Some(error), os_error, ..record }
}

fn outcome(records: Vec<Record>) -> Outcome {
    Outcome {
        duration: Duration::from_micros(125_000),
        sent: records.len() as u64,
        bytes_read: records.iter().map(|record| record.exchange.wire_bytes).sum(),
        first_head: b"HTTP/1.1 200 OK\r\nDate: x\r\nserver: Test/1.0 (y)\r\n\r\n".to_vec(),
        records,
        ..Outcome::default()
    }
}

/// Seven, of which one is an error page of another length.
fn seven() -> Outcome {
    let mut records = vec![
        record(0, [0.1234, 2.5, 3.0], 12),
        record(3, [0.2, 4.6, 5.4999], 12),
        record(9, [0.4, 8.0, 9.5], 12),
        record(19, [1.5, 20.0, 21.75], 12),
        record(41, [0.3, 3.9, 4.2], 12),
        record(46, [0.25, 30.0, 61.0], 20),
        record(107, [0.6, 7.0, 7.4], 12),
    ];
    records[5].status = 404;
    outcome(records)
}

fn text(line: &str, outcome: &Outcome) -> String {
    let options = options(line);
    ab::text_report(&options, &Figures::of(&options, outcome, 80))
}

#[test]
fn a_report_has_abs_lines() {
    let wanted = "

Server Software:        Test/1.0
Server Hostname:        a.example
Server Port:            81

Document Path:          /x
Document Length:        12 bytes

Concurrency Level:      2
Time taken for tests:   0.125 seconds
Complete requests:      7
Failed requests:        1
   (Connect: 0, Receive: 0, Length: 1, Exceptions: 0)
Non-2xx responses:      1
Total transferred:      792 bytes
HTML transferred:       92 bytes
Requests per second:    56.00 [#/sec] (mean)
Time per request:       35.714 [ms] (mean)
Time per request:       17.857 [ms] (mean, across all concurrent requests)
Transfer rate:          6.19 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.5      0       2
Processing:     3   16  20.8      8      61
Waiting:        2   10  10.1      7      30
Total:          3   16  20.8      8      61

Percentage of the requests served within a certain time (ms)
  50%      7
  66%     10
  75%     22
  80%     22
  90%     61
  95%     61
  98%     61
  99%     61
 100%     61 (longest request)
";
    let report = text("-n 7 -c 2 http://a.example:81/x", &seven());
    assert_eq!(report, wanted);
}

#[test]
fn without_confidence_or_percentiles_there_is_less() {
    let report = text("-S -d -l -k -n 7 -c 2 http://a.example:81/x", &seven());
    let table = "Connection Times (ms)
              min   avg   max
Connect:        0     0    2
Processing:     3    16   61
Waiting:        2    10   30
Total:          3    16   61
";
    assert!(report.ends_with(table), "{report}");
    assert!(report.contains("Document Length:        Variable\n"));
    assert!(report.contains("Failed requests:        0\nNon-2xx responses:      1\n"));
    assert!(report.contains("Keep-Alive requests:    0\n"));
}

#[test]
fn a_body_is_counted_with_its_head() {
    let report = text("-p f -n 7 -c 2 http://a.example:81/x", &seven());
    let rates = "Transfer rate:          6.19 [Kbytes/sec] received
                        4.38 kb/s sent
                        10.56 kb/s total
";
    assert!(report.contains(rates), "{report}");
    assert!(report.contains("bytes\nTotal body sent:        560\nHTML transferred:"));
}

#[test]
fn failures_are_counted_as_ab_counts_them() {
    let records = vec![
        record(0, [0.5, 1.0, 2.0], 12),
        // Cut off by the server: the length is wrong, no more.
        failed(ErrorKind::Closed, None, 9),
        failed(ErrorKind::Closed, None, 0),
        // A reset is three failures, two where lengths may differ.
        failed(ErrorKind::Closed, Some(104), 0),
        // A broken pipe is none but for its length.
        failed(ErrorKind::Closed, Some(32), 0),
        // A connection that failed is not complete; one that is refused is.
        failed(ErrorKind::Connect, Some(101), 0),
        failed(ErrorKind::Connect, Some(111), 0),
        failed(ErrorKind::Protocol, None, 0),
    ];
    let counts = |line: &str| {
        let figures = Figures::of(&options(line), &outcome(records.clone()), 80);
        let Figures { done, failed, connect, receive, length, exceptions, write_errors, .. } =
            figures;
        [done, failed, connect, receive, length, exceptions, write_errors]
    };
    assert_eq!(counts("-r -n 8 a/"), [7, 12, 1, 3, 5, 3, 1]);
    assert_eq!(counts("-r -l -n 8 a/"), [7, 7, 1, 3, 0, 3, 1]);
}

/// As ab 2.3 says of a port where nobody listens: `-r -n 10`, and `-n 5`.
#[test]
fn of_refused_connections_every_second_is_an_exception() {
    let of = |count: usize| {
        let records = vec![failed(ErrorKind::Connect, Some(111), 0); count];
        let figures = Figures::of(&options("-r -n 10 a/"), &outcome(records), 80);
        [figures.done, figures.failed, figures.receive, figures.exceptions, figures.length]
    };
    assert_eq!((of(10), of(5)), ([10, 15, 10, 5, 0], [5, 9, 6, 3, 0]));
}

/// ab's page is that of the first answer which no error ended, however much came before.
#[test]
fn a_reset_answer_is_no_page() {
    let reset = |bytes| failed(ErrorKind::Closed, Some(104), bytes);
    let page = || record(0, [0.5, 1.0, 2.0], 100);
    let seen = |records: Vec<Record>| {
        let figures = Figures::of(&options("-r -n 4 a/"), &outcome(records), 80);
        (figures.document_bytes, figures.failed, figures.length)
    };
    assert_eq!(seen(vec![reset(50), page(), page(), page()]), (100, 3, 1));
    assert_eq!(seen(vec![page(), page(), reset(50), page()]), (100, 3, 1));
}

#[test]
fn some_failures_end_the_run() {
    let ends = |goes_on: bool, kind, os_error| ends_run(goes_on)(&failed(kind, os_error, 0));
    assert!(ends(false, ErrorKind::Closed, Some(104)) && !ends(true, ErrorKind::Closed, Some(104)));
    assert!(!ends(false, ErrorKind::Closed, None) && !ends(false, ErrorKind::Closed, Some(32)));
    assert!(ends(false, ErrorKind::Timeout, None) && ends(true, ErrorKind::Timeout, None));
}

#[test]
fn the_mean_far_from_the_median_is_warned_of() {
    let doubts = |records: Vec<Record>| -> Vec<String> {
        let report = text("-n 9 a/", &outcome(records));
        report
            .lines()
            .filter(|l| l.contains("ING:") || l.contains("ROR:"))
            .map(str::to_owned)
            .collect()
    };
    // Two of each: the upper one is ab's median, sd is 0.7 of the distance, the mean half of it.
    let two = doubts(vec![record(0, [1.0, 2.0, 10.0], 1), record(20, [1.0, 2.0, 20.0], 1)]);
    assert!(two.is_empty(), "{two:?}");
    // 0.4 ms and 0.6 ms are 0 and 1 when rounded, and 0.1 ms of deviation.
    let near = doubts(vec![record(0, [0.0, 0.2, 0.4], 1), record(1, [0.0, 0.3, 0.5], 1)]);
    let wanted =
        "ERROR: The median and mean for the processing time are more than twice the standard";
    assert_eq!(near[0], wanted, "{near:?}");
    assert_eq!(near[1], wanted.replace("processing", "total"));
}

#[test]
fn one_request_has_no_percentiles_and_no_deviation() {
    let report = text("a/", &outcome(vec![record(0, [1.0, 2.0, 10.4], 1)]));
    assert!(report.ends_with("Total:         10   10   0.0     10      10\n"), "{report}");
    let none = text("a/", &outcome(Vec::new()));
    assert!(none.ends_with("HTML transferred:       0 bytes\n"), "{none}");
}

#[test]
fn the_files_have_abs_columns_and_order() {
    let figures = Figures::of(&options("-n 7 a/"), &seven(), 80);
    let csv = ab::percentile_csv(&figures);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (102, "Percentage served,Time in ms"));
    for (percent, ms) in [
        (0, "3.000"),
        (7, "3.000"),
        (8, "4.200"),
        (64, "9.500"),
        (65, "21.750"),
        (92, "61.000"),
        (100, "61.000"),
    ] {
        assert_eq!(lines[percent + 1], format!("{percent},{ms}"));
    }
    let clock = WallClock { unix_us_at_zero: 1_795_300_581_900_000, utc_offset_s: 0 };
    let tsv = ab::gnuplot(&figures, clock);
    let lines: Vec<&str> = tsv.lines().collect();
    assert_eq!(lines[0], "starttime\tseconds\tctime\tdtime\tttime\twait");
    assert_eq!(lines[1], "Sat Nov 21 22:36:21 2026\t1795300581\t0\t3\t3\t2");
    assert_eq!(lines[4], "Sat Nov 21 22:36:22 2026\t1795300582\t1\t7\t7\t6");
    assert_eq!(lines[7], "Sat Nov 21 22:36:21 2026\t1795300581\t0\t61\t61\t30");
    assert_eq!(lines.len(), 8);
}

#[test]
fn the_html_report_is_a_table_of_fewer_figures() {
    let options = options("-x border=1 -y a -z b -n 7 -c 2 http://a.example:81/x");
    let html = ab::html_report(&options, &Figures::of(&options, &seven(), 80));
    let row = |name: &str, value: &str| {
        format!("<tr a><th colspan=2 b>{name}:</th><td colspan=2 b>{value}</td></tr>\n")
    };
    assert!(html.starts_with("\n\n<table border=1>\n<tr a><th colspan=2 b>Server Software:</th>"));
    assert!(html.contains(&row("Requests per second", "56.00")));
    assert!(html.contains(&row("Failed requests", "1")));
    assert!(
        html.contains(
            "<tr a><td colspan=4 b >   (Connect: 0, Length: 1, Exceptions: 0)</td></tr>\n"
        )
    );
    let times = |name, [min, mean, max]: [&str; 3]| {
        let cell = |text| format!("<td b>{text:>5}</td>");
        format!("<tr a><th b>{name}:</th>{}{}{}</tr>\n", cell(min), cell(mean), cell(max))
    };
    // The connect means are 3 ms a seventh, cut; the totals' 112 ms a seventh.
    assert!(html.contains(&times("Processing", ["3", "16", "59"])), "{html}");
    assert!(html.ends_with(&(times("Total", ["3", "16", "61"]) + "</table>\n")));
}
