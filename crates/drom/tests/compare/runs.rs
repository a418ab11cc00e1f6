//! `drom compare` and `drom report` from outside, with small servers in Perl: a whole run, Ctrl-C in the
//! middle of one, and a plan that is wrong.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Answers one connection at a time, keep-alive or not, with the body that it is given.
const SERVER: &str = r#"
use strict; use IO::Socket::INET;
my ($port, $body) = @ARGV;
my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$port", Listen => 9, ReuseAddr => 1) or die $!;
while (my $c = $l->accept) {
    while (defined(my $line = <$c>)) {
        my $close = 0;
        while ($line =~ /\S/) { $close = 1 if $line =~ /^connection: close/i; $line = <$c> // last }
        syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
        last if $close;
    }
}
"#;

fn plan(folder: &Path, second_body: &str) -> std::path::PathBuf {
    fs::write(folder.join("server.pl"), SERVER).expect("written");
    let variant = |name: &str, body: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\nurl = \"/\"\n\
             command = [\"perl\", \"{{plan_dir}}/server.pl\", \"{{port}}\", \"{body}\"]\n"
        )
    };
    let text = format!(
        "name = \"cli\"\nbaseline = \"a\"\nplacement = \"shared\"\nblocks = {{ min = 6, max = 6 }}\n\
         [load]\nconnections = 1\nslice = \"150ms\"\nwarmup = \"10ms\"\n{}{}",
        variant("a", "hello"),
        variant("b", second_body)
    );
    let path = folder.join("plan.toml");
    fs::write(&path, text).expect("written");
    path
}

fn drom(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(args).env("DROM_RUNS", folder.join("runs")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Processes whose command line names this folder.
fn left_behind(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
        .filter(|line| line.contains(&folder) && line.contains("server.pl"))
        .collect()
}

#[test]
fn a_run_is_measured_kept_and_rendered_to_the_same_bytes() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "hello");
    let out =
        drom(folder.path(), &["compare", &plan.display().to_string()]).output().expect("runs");
    let (text, news) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    // A machine this busy may well call the A/A pair different: that is status 6, not a failure.
    assert!(matches!(out.status.code(), Some(0 | 6)), "{news}");
    assert!(text.contains("a (again)") && text.contains("MB/worker"), "{text}");
    assert!(news.contains("block 6 of 6 done"), "{news}");
    assert!(left_behind(folder.path()).is_empty(), "{:?}", left_behind(folder.path()));

    let list = drom(folder.path(), &["report"]).output().expect("runs").stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    let line = list.lines().nth(1).expect("a run below the head");
    let name = line.split_whitespace().next().expect("its name").to_owned();
    let again = folder.path().join("again.html");
    let rendered = drom(folder.path(), &["report", &name, "--html", &again.display().to_string()]);
    assert!({ rendered }.output().expect("runs").status.success());
    let first = fs::read(folder.path().join("runs").join(&name).join("report.html")).expect("page");
    assert!(first == fs::read(&again).expect("page again"));
    let list = |form: &str| {
        let list = drom(folder.path(), &["report", form]).output().expect("runs");
        assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
        String::from_utf8_lossy(&list.stdout).into_owned()
    };
    let runs: serde_json::Value = serde_json::from_str(&list("--json")).expect("JSON");
    assert_eq!(
        (&runs["schema"], &runs["runs"][0]["name"]),
        (&"drom.runs/1".into(), &name[..].into())
    );
    assert!(runs["runs"][0]["state"] == "done" && runs["runs"][0]["blocks"] == 6, "{runs}");
    assert!(list("--csv").contains(&format!("\n{name},")), "{}", list("--csv"));
    assert!(list("--markdown").contains(&format!("| {name} |")), "{}", list("--markdown"));
    let preview =
        drom(folder.path(), &["compare", "--preview", "--json", &plan.display().to_string()]);
    let preview = { preview }.output().expect("runs").stdout;
    let preview: serde_json::Value = serde_json::from_slice(&preview).expect("JSON");
    assert!(preview["groups"][0]["half_width_after"]["least"].as_f64() > Some(0.0), "{preview}");
    let blocks = folder.path().join("runs").join(&name).join("blocks.jsonl");
    let text = fs::read_to_string(&blocks).expect("blocks");
    fs::write(&blocks, &text[..text.len() - 20]).expect("torn");
    let torn = drom(folder.path(), &["report", &name]).output().expect("runs").stdout;
    assert!(String::from_utf8_lossy(&torn).contains("TORN: the last block was cut off"));
    let list = drom(folder.path(), &["report"]).output().expect("runs").stdout;
    assert!(String::from_utf8_lossy(&list).contains("(last block torn)"));
    fs::write(&blocks, text).expect("whole again");
    let rows = drom(folder.path(), &["report", &name, "--csv"]).output().expect("runs").stdout;
    assert!(String::from_utf8_lossy(&rows).lines().count() > 6 * 3);
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_leaves_no_process() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "hello");
    let text = fs::read_to_string(&plan).expect("plan").replace("150ms", "700ms");
    fs::write(&plan, text).expect("written");
    let child =
        drom(folder.path(), &["compare", &plan.display().to_string()]).spawn().expect("runs");
    let blocks = || -> Option<usize> {
        let run = fs::read_dir(folder.path().join("runs")).ok()?.flatten().next()?;
        Some(fs::read_to_string(run.path().join("blocks.jsonl")).ok()?.lines().count())
    };
    for _ in 0..600 {
        if blocks().is_some_and(|count| count >= 1) {
            break;
        }
        drom_observe::clock::sleep(Duration::from_millis(50));
    }
    // SAFETY: a signal to the process that this test started.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let out = child.wait_with_output().expect("ends");
    assert_eq!(out.status.code(), Some(130), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stdout).contains("stopped: only finished blocks count"));
    let list = drom(folder.path(), &["report"]).output().expect("runs").stdout;
    assert!(String::from_utf8_lossy(&list).contains("(stopped)"));
    assert!(left_behind(folder.path()).is_empty(), "{:?}", left_behind(folder.path()));
}

#[test]
fn a_variant_that_answers_wrongly_fails_the_run() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "hello");
    // Good for the preflight, then every 20th answer is another one.
    let flaky =
        SERVER.replace("my $close = 0;", "my $close = 0; $body = 'wrong' if ++$n % 20 == 0;");
    let flaky = flaky.replace("syswrite $c,", "$body = 'hello' if $n % 20; syswrite $c,");
    fs::write(folder.path().join("flaky.pl"), flaky.replace("my ($port", "my $n = 0; my ($port"))
        .expect("written");
    let text = fs::read_to_string(&plan).expect("plan");
    let at = text.rfind("server.pl").expect("the second variant");
    fs::write(&plan, format!("{}flaky.pl{}", &text[..at], &text[at + 9..])).expect("written");
    let out =
        drom(folder.path(), &["compare", &plan.display().to_string()]).output().expect("runs");
    let (text, news) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(7), "{text}{news}");
    assert!(
        text.contains("WRONG ANSWERS") && text.contains("no claim: b, wrong answers"),
        "{text}"
    );
}

#[test]
fn servers_that_answer_differently_and_wrong_plans_are_refused() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "goodbye");
    let path = plan.display().to_string();
    let kept = folder.path().join("kept/run").display().to_string();
    let out = drom(folder.path(), &["compare", &path, "--out", &kept]).output().expect("runs");
    let news = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(7), "{news}");
    assert!(news.contains("goodbye") && news.contains("same_answer"), "{news}");
    assert!(!folder.path().join("kept").exists(), "the folder that no run came into");
    assert!(left_behind(folder.path()).is_empty());

    let text = fs::read_to_string(&plan).expect("plan").replace("baseline", "bassline");
    fs::write(&plan, text).expect("written");
    let out = drom(folder.path(), &["compare", &path]).output().expect("runs");
    assert_eq!(out.status.code(), Some(2), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn what_is_wrong_with_the_load_is_said_at_once_with_its_line() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "hello");
    let whole = fs::read_to_string(&plan).expect("plan");
    let cases = [
        ("connections = 1", "connections = 0", 6),
        ("connections = 1", "connections = 1\nthreads = 2", 7),
        ("slice = \"150ms\"", "slice = \"a while\"", 7),
        ("slice = \"150ms\"", "slise = \"150ms\"", 7),
        ("warmup = \"10ms\"", "method = \"GE T\"", 8),
        ("url = \"/\"", "url = \"/a b\"", 11),
        ("url = \"/\"", "url = \"http://127.0.0.1/\"", 11),
        ("name = \"b\"", "name = \"a\"", 14),
    ];
    for (from, to, line) in cases {
        fs::write(&plan, whole.replacen(from, to, 1)).expect("written");
        let path = plan.display().to_string();
        let out = drom(folder.path(), &["compare", &path]).output().expect("runs");
        let news = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{to}: {news}");
        assert!(news.contains(&format!("{path}:{line}: ")), "{to}: {news}");
        assert!(!news.contains("preflight"), "{to}: {news}");
    }
}

/// `SERVER` with `code` at its start, as the second variant of the plan.
fn second_server(folder: &Path, plan: &Path, server: &str) {
    fs::write(folder.join("second.pl"), server).expect("written");
    let text = fs::read_to_string(plan).expect("plan");
    let at = text.rfind("server.pl").expect("the second variant");
    fs::write(plan, format!("{}second.pl{}", &text[..at], &text[at + 9..])).expect("written");
}

/// Dies with a word on standard error after 20 requests of the starts that `which` says.
fn mortal(folder: &Path, which: &str) -> String {
    let count = folder.join("starts").display().to_string();
    let begin = format!(
        "open my $f, '>>', '{count}'; print $f 'x'; close $f; my $start = -s '{count}';\n\
         my $n = 0; my $mortal = {which};\nmy ($port"
    );
    let end = "my $close = 0; if ($mortal && ++$n > 20) { warn qq(out of luck\\n); kill 9, $$ }";
    SERVER.replace("my ($port", &begin).replace("my $close = 0;", end)
}

#[test]
fn a_server_that_dies_costs_its_block_and_the_report_says_so() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "hello");
    second_server(folder.path(), &plan, &mortal(folder.path(), "$start == 4"));
    let out =
        drom(folder.path(), &["compare", &plan.display().to_string()]).output().expect("runs");
    let (text, news) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(6), "{text}{news}");
    assert!(news.contains("block 6 of 6 done") && news.contains("dropped"), "{news}");
    assert!(news.contains("out of luck"), "its last words: {news}");
    assert!(text.contains("1 block dropped") && text.contains("out of luck"), "{text}");
    let list = drom(folder.path(), &["report"]).output().expect("runs").stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    assert!(list.contains("1 dropped"), "{list}");
    assert!(left_behind(folder.path()).is_empty(), "{:?}", left_behind(folder.path()));
}

#[test]
fn a_variant_that_dies_in_every_block_ends_the_run_with_its_reason() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "hello");
    second_server(folder.path(), &plan, &mortal(folder.path(), "$start > 2"));
    let out =
        drom(folder.path(), &["compare", &plan.display().to_string()]).output().expect("runs");
    let (text, news) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(1), "{text}{news}");
    assert!(news.contains("`b` failed in 3 blocks in a row"), "{news}");
    assert!(text.contains("3 blocks dropped") && text.contains("1 block "), "{text}");
    let list = drom(folder.path(), &["report"]).output().expect("runs").stdout;
    assert!(String::from_utf8_lossy(&list).contains("(failed)"));
}

#[test]
fn a_variant_that_only_answers_500_has_answered_wrongly() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = plan(folder.path(), "hello");
    let text = fs::read_to_string(&plan).expect("plan");
    let at = text.rfind("url = \"/\"").expect("the second variant");
    let soon = "url = \"/broken\"\nready = { within = \"300ms\" }";
    fs::write(&plan, format!("{}{soon}{}", &text[..at], &text[at + 9..])).expect("written");
    let broken = SERVER.replace("200 OK", "500 Internal Server Error");
    second_server(folder.path(), &plan, &broken);
    let out =
        drom(folder.path(), &["compare", &plan.display().to_string()]).output().expect("runs");
    let news = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{news}");
    for word in ["`b`", "/broken", "status 500"] {
        assert!(news.contains(word), "{word}: {news}");
    }
}
