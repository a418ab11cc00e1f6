//! `drom memory --heap` from outside: what it tells of a perl's insides, and that it changes
//! nothing.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Output, Stdio},
};

use crate::support::Server;
use serde_json::Value;

const SHOP: &str = "\
package Shop;
our @rows = map { 'x' x 1_000 } 1 .. 300;
our %secret = ('joe@example.org' => 'k3y-4711', password => 'hunter2', Tr0ub4dor => ['x' x 9_999]);
sub add {
    my ($self, $item) = @_;
    push @rows, $item;
    return scalar @rows;
}
package main;
$| = 1;
print qq(ready\\n);
while (<STDIN>) { push @Shop::rows, map { 'y' x 1_000 } 1 .. 200; print qq(done\\n) }
";

fn drom(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("memory").args(words).stdin(Stdio::null()).env_remove("COLUMNS");
    command.output().expect("it starts")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is told of a look that went well.
fn told(words: &[&str]) -> String {
    let output = drom(words);
    assert_eq!((output.status.code(), said(&output.stderr)), (Some(0), String::new()));
    said(&output.stdout)
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&told(&[words, &["--json"]].concat())).expect("JSON")
}

fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    let found = list.as_array().expect("a list").iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("{name} in {list:#}"))
}

/// A perl that has said that it is ready; ends with the test.
struct Target {
    child: Child,
    input: Option<ChildStdin>,
    lines: BufReader<std::process::ChildStdout>,
}

impl Target {
    fn ready(code: &str) -> Self {
        let mut perl = Command::new("perl");
        perl.args(["-e", code]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = perl.spawn().expect("perl");
        let (input, out) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let mut target = Self { child, input, lines: BufReader::new(out) };
        assert_eq!(target.line(), "ready\n");
        target
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn packages_subs_and_variables_are_told_with_their_sizes() {
    let target = Target::ready(SHOP);
    let found = json(&["--pid", &target.pid(), "--heap"]);
    assert_eq!(found["schema"], "drom-heap/1");
    assert!(found["named"].as_f64().expect("a share") > 0.99, "{found:#}");
    let rows = named(&found["variables"], "@Shop::rows");
    let bytes = rows["bytes"].as_u64().expect("bytes");
    assert!((300 * 1_040..300 * 1_120).contains(&bytes), "{rows}");
    assert_eq!(rows["package"], "Shop");
    let add = named(&found["subs"], "Shop::add");
    assert_eq!((&add["line"], &add["is_xs"]), (&5.into(), &false.into()), "{add}");
    let shop = named(&found["packages"], "Shop");
    assert!(shop["bytes"].as_u64() > rows["bytes"].as_u64(), "{shop}");
    let sum: u64 = found["classes"]
        .as_object()
        .expect("classes")
        .values()
        .map(|bytes| bytes.as_u64().expect("bytes"))
        .sum();
    assert_eq!(found["used"], sum);
    let text = told(&["--pid", &target.pid(), "--heap"]);
    for words in ["% of it with a name", "@Shop::rows", "Shop::add", "operators of subs"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn nothing_that_is_kept_in_variables_is_shown() {
    let target = Target::ready(SHOP);
    for words in [&["--heap"][..], &["--heap", "--json"], &["--heap", "--sub", "Shop::add"]] {
        let text = told(&[&["--pid", &target.pid()], words].concat());
        for value in ["k3y-4711", "hunter2", "joe@example.org", "Tr0ub4dor"] {
            assert!(!text.contains(value), "{text}");
        }
    }
}

#[test]
fn a_sub_is_told_by_line_and_operator() {
    let target = Target::ready(SHOP);
    let found = json(&["--pid", &target.pid(), "--heap", "--sub", "Shop::add"]);
    let lines: Vec<u64> = found["sub"]["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| line["line"].as_u64().expect("a number"))
        .collect();
    assert_eq!(lines, [5, 6, 7], "{:#}", found["sub"]);
    assert_eq!(named(&found["sub"]["operators"], "push")["count"], 1);
    let text = told(&["--pid", &target.pid(), "--heap", "--sub", "Shop::add"]);
    assert!(text.contains("OPERATOR\n") && text.contains("  LINE\n"), "{text}");
    let output = drom(&["--pid", &target.pid(), "--heap", "--sub", "Shop::ad"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output.stderr), "drom memory: there is no sub Shop::ad; there is Shop::add\n");
    let output = drom(&["--pid", &target.pid(), "--heap", "--package", "Shep"]);
    assert!(said(&output.stderr).contains("there is no package Shep"), "{output:?}");
    let text = told(&["--pid", &target.pid(), "--heap", "--package", "Shop"]);
    assert!(text.contains("@Shop::rows") && !text.contains("%main::ENV"), "{text}");
}

#[test]
fn what_came_to_hold_more_is_told() {
    let code = "our (@rows, $still) = ('x', 'y'); $| = 1; print qq(ready\\n); \
                while (1) { push @rows, ('z' x 100) x 10; select undef, undef, undef, 0.01 }";
    let target = Target::ready(code);
    let words = ["--pid", &target.pid(), "--heap", "-d", "700ms"];
    let found = json(&words);
    let first = &found["growth"]["variables"][0];
    assert_eq!(first["name"], "@main::rows", "{first}");
    let (values, bytes) = (first["values"].as_i64(), first["bytes"].as_i64());
    assert!(values.is_some_and(|more| more >= 10) && bytes.is_some_and(|more| more > 1_000));
    let grown = found["growth"]["variables"].as_array().expect("a list");
    assert!(grown.iter().all(|one| one["name"] != "$main::still"), "{grown:?}");
    assert!(found["growth"]["seconds"].as_f64().is_some_and(|passed| passed >= 0.7));
    let text = told(&words);
    assert!(text.contains(" came to hold more, ") && text.contains("MORE  VALUES"), "{text}");
}

fn script(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("script.pl");
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn a_script_is_looked_at_at_its_end_and_knows_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "our @left = map { 'z' x 500 } 1 .. 1_000; my $own = $$; \
                END { print qq(last\n) if $$ == $own } \
                $| = 1; print exists $ENV{DROM_HOLD} ? 'seen' : 'unseen', qq(\n); \
                if (!fork) { exit 9 } wait; exit 7";
    let path = script(&folder, text);
    let output = drom(&["--heap", path.to_str().expect("text")]);
    assert_eq!((output.status.code(), &*said(&output.stdout)), (Some(7), "unseen\nlast\n"));
    let table = said(&output.stderr);
    assert!(table.contains("@main::left"), "{table}");
    let path = script(&folder, "kill 9, $$");
    let output = drom(&["--heap", path.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(137));
    assert!(said(&output.stderr).contains("was not looked at: the script ended by"), "{output:?}");
    let path = script(&folder, "this is no perl");
    let output = drom(&["--heap", path.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(255), "{output:?}");
}

#[test]
fn what_a_module_costs_is_told() {
    let found = json(&["--module", "Data::Dumper"]);
    let dumper = named(&found["packages"], "Data::Dumper");
    assert!(dumper["subs"].as_u64().is_some_and(|subs| subs > 20), "{dumper}");
    assert!(dumper["subs_bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{dumper}");
    let output = drom(&["--module", "No::Such::Thing"]);
    assert_eq!((output.status.code(), said(&output.stdout)), (Some(1), String::new()));
    let words = said(&output.stderr);
    assert!(words.contains("No/Such/Thing.pm in @INC"), "{words}");
    let own = "No::Such::Thing cannot be loaded, or ended the perl that did it\n";
    assert!(words.ends_with(own), "{words}");
}

#[test]
fn a_server_goes_on_while_it_is_looked_at() {
    let mut target = Target::ready(SHOP);
    let pid = target.pid();
    for _ in 0..5 {
        told(&["--pid", &pid, "--heap", "-O", "1"]);
        target.input.as_mut().expect("a pipe").write_all(b"more\n").expect("it listens");
        assert_eq!(target.line(), "done\n");
    }
    drop(target.input.take());
    assert!(target.child.wait().expect("it ends").success());
}

#[test]
fn what_has_no_perl_or_is_gone_is_refused() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep");
    let output = drom(&["--pid", &sleeper.id().to_string(), "--heap"]);
    sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("is no Perl"), "{output:?}");
    let output = drom(&["--pid", &sleeper.id().to_string(), "--heap"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("there is no process"), "{output:?}");
    for words in [&["--package", "X", "--pid", "1"][..], &["--heap"], &["--heap", "--tree", "x.pl"]]
    {
        assert_eq!(drom(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_narrow_window_has_no_wide_line() {
    let target = Target::ready(SHOP);
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["memory", "--heap", "--pid", &target.pid()]).env("COLUMNS", "44");
    let output = command.env("LC_ALL", "C.UTF-8").output().expect("it starts");
    let text = said(&output.stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 44), "{text}");
    assert!(text.contains("PACKAGE\n") && text.contains("@Shop::rows"), "{text}");
}

/// What a perl says that uses the module.
fn by_module(code: &str) -> Output {
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../../perl/lib");
    let mut perl = Command::new("perl");
    perl.args(["-I", library, "-MDrom::Memory=size_of,total_size_of", "-we", code]);
    perl.env("DROM", env!("CARGO_BIN_EXE_drom")).output().expect("perl")
}

#[test]
fn sizes_are_told_to_perl() {
    let code = "my %all = (list => [1 .. 100], text => 'x' x 1_000); my @shared = (\\%all) x 3; \
                print join ' ', size_of(\\%all), total_size_of(\\%all), total_size_of(\\@shared), \
                size_of(\\'x'), total_size_of(sub { $all{list} })";
    let output = by_module(code);
    assert_eq!(said(&output.stderr), "");
    let text = said(&output.stdout);
    let sizes: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
    let [hash, total, shared, scalar, closure] = sizes[..] else { panic!("{text}") };
    // Head, body, eight buckets and two entries.
    assert_eq!(hash, 24 + 32 + 80 + 2 * 24);
    // A reference to an array of 100 numbers, and a text.
    let values = 24 + (24 + 40 + 816) + 100 * 24 + (24 + 16 + 1_024);
    assert!((hash + values..hash + values + 400).contains(&total), "{text}");
    // Three references to the same.
    assert!((total + 3 * 24..total + 400).contains(&shared), "{text}");
    assert!((40..200).contains(&scalar) && closure > total, "{text}");
    let refused = said(&by_module("size_of(5)").stderr);
    assert!(refused.starts_with("size_of and total_size_of are of what a reference"), "{refused}");
    let refused = said(&by_module("$Drom::Memory::DROM = '/nowhere/drom'; size_of([])").stderr);
    assert!(refused.contains("/nowhere/drom cannot be started: No such file"), "{refused}");
}

#[test]
fn a_worker_of_a_server_is_told() {
    let script = "our %seen; $seen{$_} = 'x' x (1_000 + $_) for 1 .. 200;\n\
                  print qq(Content-Type: text/plain\n\ngrown\n);\n";
    let server = Server::start("", &[("perl/grow.pl", script)]);
    assert_eq!(server.get("/registry/grow.pl").text(), "grown\n");
    let is_seen = |one: &Value| one["name"].as_str().is_some_and(|name| name.ends_with("::seen"));
    let of = |pid: i32| {
        let output = drom(&["--pid", &pid.to_string(), "--heap", "--json"]);
        serde_json::from_slice::<Value>(&output.stdout).ok()
    };
    let looks: Vec<Value> = server.descendants().into_iter().filter_map(of).collect();
    let seen =
        |look: &&Value| look["variables"].as_array().is_some_and(|all| all.iter().any(is_seen));
    let worker = looks.iter().find(seen).expect("a worker");
    let seen = worker["variables"].as_array().and_then(|all| all.iter().find(|one| is_seen(one)));
    let bytes = seen.and_then(|seen| seen["bytes"].as_u64());
    assert!(bytes.is_some_and(|bytes| (200_000..350_000).contains(&bytes)), "{seen:?}");
    // Rust's memory, too, is somebody's.
    assert!(worker["named"].as_f64().is_some_and(|named| named >= 0.95), "{}", worker["named"]);
    assert_eq!(server.get("/registry/grow.pl").text(), "grown\n");
}

#[test]
fn what_a_request_leaves_behind_is_told() {
    let script = "our @kept; push @kept, 'x' x (20_000 + @kept);\n\
                  print qq(Content-Type: text/plain\n\nkept\n);\n";
    let server = Server::start("MaxRequestWorkers 1\n", &[("perl/keep.pl", script)]);
    (0..20).for_each(|_| drop(server.get("/registry/keep.pl")));
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    let pid = server.pid().to_string();
    command.args(["memory", "--pid", &pid, "--tree", "-d", "2s", "--interval", "50ms", "--json"]);
    let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut asked = 0;
    let told = std::thread::spawn(move || child.wait_with_output().expect("it ends"));
    while !told.is_finished() {
        assert_eq!(server.get("/registry/keep.pl").text(), "kept\n");
        asked += 1;
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let output = told.join().expect("it ends");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let requests = found["growth"]["requests"].as_u64().expect("a number");
    assert!(requests > 10 && requests <= asked, "{requests} of {asked}");
    let each = found["growth"]["uss_bytes_per_request"].as_f64().expect("a number");
    assert!((15_000.0..40_000.0).contains(&each), "{each}");
}

#[test]
fn what_was_given_up_is_room_and_what_ends_is_told_as_it_was() {
    let code = "my @all = map { [] } 1 .. 100_000; my %keys = map { $_ => [] } 1 .. 50_000; \
                @all = (); undef %keys; $| = 1; print qq(ready\\n); sleep 60";
    let target = Target::ready(code);
    let found = json(&["--pid", &target.pid(), "--heap"]);
    let class = |name: &str| found["classes"][name].as_u64().expect("bytes");
    // The stacks have grown with the lists.
    assert!(class("room") > 9_000_000 && class("interpreter") < 3_000_000, "{}", found["classes"]);
    assert!(found["named"].as_f64().is_some_and(|named| named > 0.98), "{}", found["named"]);
    // Rows have all that is allocated.
    let sum = |list: &Value| -> u64 {
        list.as_array().expect("rows").iter().map(|row| row["bytes"].as_u64().expect("bytes")).sum()
    };
    assert_eq!(
        sum(&found["packages"]) + sum(&found["others"]),
        found["used"].as_u64().expect("it")
    );
    let mut ends = Target::ready("$| = 1; print qq(ready\\n); select undef, undef, undef, 0.6");
    let output = drom(&["--pid", &ends.pid(), "--heap", "-d", "1min"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("this is the first look"), "{output:?}");
    assert!(said(&output.stdout).contains("PACKAGE\n"), "{output:?}");
    assert!(ends.child.wait().expect("it ends").success());
}

#[test]
fn a_program_that_was_replaced_is_looked_at_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let perl = folder.path().join("perl");
    let found = Command::new("perl").args(["-e", "print $^X"]).output().expect("perl");
    // By another process: a child that another test forks while this one writes the file would
    // have it open still, and then it cannot be run (ETXTBSY).
    let copied = Command::new("cp").arg(said(&found.stdout)).arg(&perl).status();
    assert!(copied.expect("cp").success());
    let mut target = Command::new(&perl);
    target.args(["-e", SHOP]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = target.spawn().expect("perl");
    let (input, out) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
    let mut target = Target { child, input, lines: BufReader::new(out) };
    assert_eq!(target.line(), "ready\n");
    fs::remove_file(&perl).expect("removed");
    let found = json(&["--pid", &target.pid(), "--heap"]);
    assert!(named(&found["variables"], "@Shop::rows")["bytes"].as_u64() > Some(300_000));
}
