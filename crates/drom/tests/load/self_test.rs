//! `drom load --self-test` from outside: this machine's ceiling, as text and as JSON.

use std::process::{Command, Output};

use serde_json::Value;

fn self_test(flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["load", "--self-test"]).args(flags);
    command.output().expect("drom starts")
}

/// Other tests may take its CPU: then it says so.
fn assert_measured(output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 6)), "{} {told}", output.status);
}

#[test]
fn json_has_every_figure() {
    let output = self_test(&["-d", "600ms", "-c", "4", "--json"]);
    assert_measured(&output);
    let found: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(found["schema"], "drom-load-self-test/1");
    assert_eq!((&found["connections"], &found["threads"]), (&4.into(), &1.into()));
    let is_positive = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
    for key in ["ceiling_rps", "cpu_us_per_request", "timer_rps", "clock_ns"] {
        assert!(is_positive(&found[key]), "{key} in {found}");
    }
    for quantile in ["p50", "p99"] {
        assert!(is_positive(&found["latency_us"][quantile]), "{found}");
        assert!(found["timer_lag_us"][quantile].is_number(), "{found}");
    }
    assert_eq!(found["disturbed"] == true, output.status.code() == Some(6), "{found}");
    assert_eq!(found["disturbed"] == true, found["evidence"].is_string(), "{found}");
}

#[test]
fn the_text_names_every_figure_within_the_width() {
    let output = self_test(&["-d", "600ms"]);
    assert_measured(&output);
    let text = String::from_utf8(output.stdout).expect("text");
    for word in ["Ceiling", "answers/s", "CPU a request", "Timers", "late", "ns a look"] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn it_has_no_server_and_no_rate() {
    for flags in [&["http://127.0.0.1:1/"][..], &["--rate", "5"], &["-n", "5"]] {
        assert_eq!(self_test(flags).status.code(), Some(2), "{flags:?}");
    }
    let bare = Command::new(env!("CARGO_BIN_EXE_drom")).arg("load").output();
    assert_eq!(bare.expect("drom starts").status.code(), Some(2), "a URL is wanted otherwise");
}
