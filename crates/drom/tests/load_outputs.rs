//! What comes out of `drom load` beside the text: thresholds, files, series.

#[path = "support/loading.rs"]
mod loading;

use loading::{document, drom, server};

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
