//! What comes out of `drom load` beside the text: thresholds, files, series.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::loading::{document, drom, server};
use hdrhistogram::{
    Histogram,
    serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry},
    },
};

#[test]
fn thresholds_decide_the_exit_status() {
    let (_server, url) = server();
    let output = drom(&[&url, "-n", "200", "-c", "2", "--threshold", "max<30s,failed<0.1%"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3 | 6)), "{text}");
    assert!(text.contains("Thresholds  ok   max<30s"), "{text}");
    let output = drom(&[
        &url,
        "-n",
        "200",
        "-c",
        "2",
        "--json",
        "--threshold",
        "p50 < 1ns",
        "--threshold",
        "failed<=0",
    ]);
    let told = document(&output);
    assert!(matches!(output.status.code(), Some(6 | 9)), "{:?}: {told}", output.status);
    let [slow, good] = &told["thresholds"].as_array().expect("a list")[..] else {
        panic!("{told}");
    };
    assert_eq!((&slow["expression"], &slow["met"]), (&"p50<1ns".into(), &false.into()));
    assert_eq!((&slow["unit"], &good["unit"]), (&"ns".into(), &"".into()));
    let (p50_ns, p50_us) = (slow["value"].as_f64(), told["latency_us"]["p50"].as_f64());
    assert!((p50_ns.expect("ns") - 1e3 * p50_us.expect("us")).abs() < 1e-6, "{told}");
    assert_eq!((&good["value"], &good["met"]), (&0.0.into(), &true.into()));
}

#[test]
fn a_threshold_that_is_none_is_a_usage_error_with_a_way_out() {
    let output =
        drom(&["http://127.0.0.1:9/", "--threshold", "p99<250ms", "--threshold", "fialed<1%"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no metric \"fialed\"") && said.contains("did you mean failed?"),
        "{said}"
    );
    let help = String::from_utf8_lossy(&drom(&["--help"]).stdout).into_owned();
    assert!(help.contains("first_byte  from the write"), "{help}");
}

/// A run of two seconds and a bit, in every form.
#[test]
fn every_file_tells_the_same_run() {
    let (_server, url) = server();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (csv, series, hdr) = (at("one.csv"), at("series.csv"), at("latency.hlog"));
    let rate = ["--rate", "200", "-c", "4", "-d", "2500ms", "--json"];
    let files = ["--csv", &csv, "--csv-series", &series, "--hdr", &hdr];
    let told = document(&drom(&[&[&url[..]], &rate[..], &files[..]].concat()));
    let ok = told["requests"]["ok"].as_u64().expect("a count");
    assert_eq!(ok, 500);

    let one = &table(Path::new(&csv))[0];
    assert_eq!((&one["url"], &one["requests_ok"]), (&url, &ok.to_string()));
    assert_eq!(one["latency_p99_us"], told["latency_us"]["p99"].to_string());
    assert_eq!(one["open_service_p50_us"], told["open"]["service_us"]["p50"].to_string());
    assert_eq!((&one["status_2xx"][..], &one["errors_timeout"][..]), ("500", "0"));
    assert_eq!((&one["check_counts"][..], &one["open_arrivals"][..]), ("ok", "constant"));

    let lines = table(Path::new(&series));
    let json = told["series"].as_array().expect("a list");
    assert!((3..=4).contains(&lines.len()) && lines.len() == json.len(), "{lines:?}");
    let all: u64 = lines.iter().map(|line| line["ok"].parse::<u64>().expect("a count")).sum();
    assert_eq!(all, ok);
    for (line, second) in lines.iter().zip(json) {
        assert_eq!(line["sent"], second["sent"].to_string());
        let p99 = second["latency_us"]["p99"].as_f64().map(|us| format!("{us:.3}"));
        assert_eq!(line["latency_p99_us"], p99.unwrap_or_default());
    }
    assert_hdr_log(Path::new(&hdr), ok, json.len());
}

#[test]
fn the_page_needs_no_network_and_says_what_the_run_says() {
    let (_server, url) = server();
    let flags = ["-n", "300", "-c", "2", "--html", "-", "--threshold", "p50<1ns,failed<1%"];
    let page = String::from_utf8(drom(&[&[&url[..]], &flags[..]].concat()).stdout).expect("text");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains(&format!("<title>GET {url}</title>")), "{page}");
    assert!(page.contains("1 of 2 thresholds not met") && page.contains("p50&lt;1ns"), "{page}");
    assert!(
        page.contains("<td class=\"state \">status 200</td><td class=\"n\">300</td>"),
        "{page}"
    );
    assert_eq!(page.matches("<svg").count(), 3, "rate, latency, percentiles");
    for foreign in ["<link", "<img", "src=", "@import", "url(", "NaN"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn a_line_a_second_comes_where_no_terminal_is() {
    let (_server, url) = server();
    let said = |how: &[&str]| {
        let flags = [&[&url[..], "--rate", "100", "-d", "2500ms"], how].concat();
        String::from_utf8(drom(&flags).stderr).expect("text")
    };
    for lines in [said(&[]), said(&["--progress", "lines"])] {
        assert!((1..=2).contains(&lines.lines().count()), "{lines}");
        assert!(lines.starts_with("measuring") && !lines.contains('\x1b'), "{lines}");
        // The rate of the last whole second, once.
        let second = lines.lines().last().expect("a line");
        assert_eq!(second.matches("/s  ").count(), 1, "{second}");
        assert!(second.contains(" s  100/s  ") && second.contains("  p99 "), "{second}");
    }
    assert_eq!((said(&["--progress", "none"]), said(&["-q"])), (String::new(), String::new()));
}

fn assert_hdr_log(path: &Path, answers: u64, seconds: usize) {
    let log = fs::read(path).expect("a log");
    let text = String::from_utf8_lossy(&log).into_owned();
    let entries: Vec<LogEntry<'_>> =
        IntervalLogIterator::new(&log).map(|entry| entry.expect("an entry")).collect();
    let start = entries.iter().find_map(|entry| match entry {
        LogEntry::StartTime(time) => Some(time.as_secs()),
        _ => None,
    });
    assert!(start.is_some_and(|seconds| seconds > 1_700_000_000), "{text}");
    let (mut found, mut lines, mut end_s) = (0, 0, 0.0);
    for entry in &entries {
        let LogEntry::Interval(interval) = entry else { continue };
        let bytes = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            interval.encoded_histogram(),
        );
        let histogram: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes.expect("base64")[..]).expect("a histogram");
        found += histogram.len();
        assert!((interval.max() - histogram.max() as f64 / 1e6).abs() < 1e-3, "{text}");
        let start_s = interval.start_timestamp().as_secs_f64();
        assert!((start_s - end_s).abs() < 0.002, "{text}");
        (lines, end_s) = (lines + 1, start_s + interval.duration().as_secs_f64());
    }
    assert_eq!((found, lines), (answers, seconds), "{text}");
}

#[test]
fn columns_of_a_closed_loop_are_those_of_an_open_one() {
    let (_server, url) = server();
    let header = |flags: &[&str]| {
        let output = drom(&[&[&url[..], "--csv", "-"], flags].concat());
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.lines().count(), 2, "only the CSV: {text}");
        text.lines().next().map(str::to_owned)
    };
    assert_eq!(header(&["-n", "10", "-c", "1"]), header(&["-n", "10", "--rate", "1k"]));
}

#[test]
fn a_file_that_cannot_be_written_is_known_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_string_lossy().into_owned();
    let url = "http://127.0.0.1:9/";
    let output = drom(&[url, "--csv", &path]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("cannot write {path}: ")), "{said}");
    let output = drom(&[url, "--csv", "-", "--hdr", "-"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("only one result can go to standard output"), "{said}");
}

#[test]
fn a_run_without_a_result_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (csv, series, hdr, html) = (at("csv"), at("series"), at("hdr"), at("html"));
    let files = ["--csv", &csv, "--csv-series", &series, "--hdr", &hdr, "--html", &html];
    let left = || fs::read_dir(folder.path()).expect("a folder").count();
    let output = drom(&[&["http://127.0.0.1:1/", "-n", "1"], &files[..]].concat());
    assert_eq!((output.status.code(), left()), (Some(1), 0), "{output:?}");

    let (_server, url) = server();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["load", &url, "-d", "60s", "-q"]).args(files);
    let mut child = command.stdout(Stdio::null()).spawn().expect("drom can be started");
    drom_observe::clock::sleep(Duration::from_millis(500));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(left(), 0, "killed");

    fs::write(&csv, "of an earlier run").expect("written");
    drop(drom(&[&url, "-n", "0", "--csv", &csv]));
    assert_eq!(fs::read_to_string(&csv).expect("it is there"), "of an earlier run");
}

#[test]
fn columns_that_are_no_figures_are_documented() {
    let (_server, url) = server();
    let output = drom(&[&url, "-n", "1", "-c", "1", "--csv", "-", "--threshold", "p99<30s"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let names = text.lines().next().expect("a header").split(',');
    let lists = ["status_", "errors_", "check_"];
    let names: Vec<&str> = names.filter(|name| lists.iter().any(|l| name.starts_with(l))).collect();
    assert!(names.len() > 20 && text.contains(",met p99<30s\n"), "{text}");
    let (_, page) = page.split_once("### Columns of the line").expect("a table");
    let (table, _) = page.split_once("\n### ").expect("others follow");
    for name in names {
        assert!(table.contains(&format!("`{name}`")), "{name}");
    }
    assert!(table.contains("`met EXPRESSION`"), "{table}");
}

/// The lines of a CSV without quotes, by the names of their columns.
fn table(path: &Path) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(path).expect("a file");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().expect("a header").collect();
    lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect()
}
