//! `drom memory --heap` of a worker of a Drom server: it makes a copy of itself, which is looked
//! at, and nothing is left of that.

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::support::{Server, alive, eventually, helper};
use serde_json::Value;

/// Its own child is the only one that it ever sees, and a sleep is as long as ever.
const SCRIPT: &str = r#"
    use Time::HiRes 'time';
    our @rows = map { "row $_ " x 100 } 1 .. 20_000 unless @rows;
    print "Content-Type: text/plain\n\n";
    my ($began, $waited) = (time, '');
    for (1 .. 15) {
        my $from = time;
        select undef, undef, undef, 0.1;
        $short++ if time < $from + 0.1;
        my $got = wait;
        $waited .= "child $got " if $got > 0;
    }
    print $short ? "woken" : "slept", " $waited\n";
"#;

fn start(pid: i32) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["memory", "--pid", &pid.to_string(), "--heap", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// A copy that is there, with its name.
fn copy(worker: i32) -> Option<(i32, String)> {
    let children = format!("/proc/{worker}/task/{}/children", helper(worker)?);
    let pid = fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()?;
    Some((pid, fs::read_to_string(format!("/proc/{pid}/comm")).ok()?))
}

fn files(worker: i32) -> usize {
    fs::read_dir(format!("/proc/{worker}/fd")).map_or(0, Iterator::count)
}

#[test]
fn a_request_that_runs_does_not_notice() {
    let server = Server::start("MaxRequestWorkers 1\n", &[("perl/rows.pl", SCRIPT)]);
    server.get("/registry/rows.pl");
    let (worker, before) = (server.worker(), files(server.worker()));
    thread::scope(|scope| {
        let asking = scope.spawn(|| server.get("/registry/rows.pl").text());
        let mut looks = 0;
        while !asking.is_finished() {
            let output = start(worker).wait_with_output().expect("it ends");
            let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let rows = found["variables"].as_array().expect("variables").iter();
            let mut rows =
                rows.filter(|one| one["name"].as_str().is_some_and(|n| n.ends_with("::rows")));
            assert!(rows.any(|one| one["bytes"].as_u64() > Some(10_000_000)), "{found}");
            assert!(found["named"].as_f64() > Some(0.95) && found["pause_s"].as_f64() > Some(0.0));
            looks += 1;
        }
        assert!(looks > 1);
        assert_eq!(asking.join().expect("an answer"), "slept \n");
    });
    // It is asked to end, and does so when it gets its turn; the first connection may be gone.
    let is_clean = || copy(worker).is_none() && files(worker) <= before;
    assert!(eventually(Duration::from_secs(10), is_clean), "{:?}", copy(worker));
}

#[test]
fn a_copy_holds_nothing_and_ends_with_who_looks() {
    let server = Server::start("MaxRequestWorkers 1\n", &[("perl/rows.pl", SCRIPT)]);
    server.get("/registry/rows.pl");
    let worker = server.worker();
    for _ in 0..5 {
        let mut looker = start(worker);
        let is_there = || copy(worker).is_some_and(|(_, name)| name.starts_with("copy "));
        while !is_there() && matches!(looker.try_wait(), Ok(None)) {}
        let Some((pid, _)) = copy(worker) else {
            looker.wait().expect("ours");
            continue;
        };
        looker.kill().expect("ours");
        let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |all| all.flatten().count());
        assert!(files <= 1, "{files} files");
        looker.wait().expect("ours");
        assert!(eventually(Duration::from_secs(10), || !alive(pid)), "{pid} outlives {looker:?}");
        assert!(eventually(Duration::from_secs(10), || copy(worker).is_none()), "not waited for");
        assert_eq!(server.get("/registry/rows.pl").text(), "slept \n");
        return;
    }
    panic!("no copy was ever seen");
}
