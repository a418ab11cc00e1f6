//! `drom profile` from outside: what it tells, and that it changes nothing.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::profiled::{drom, said, script, target};

const HOT: &str = "\
sub hot { my $sum = 0; $sum += $_ for 1 .. 1000; $sum }
sub outer { hot() }
my $until = time + 1;
print \"hello\\n\";
outer() while time <= $until;
";

/// Each format as the program that reads it needs it.
#[test]
fn other_programs_read_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), HOT);
    let path = path.to_str().expect("text");
    let written = |format: &str| {
        let out = folder.path().join(format);
        let words = ["--format", format, "-o", out.to_str().expect("text"), path];
        assert_eq!(drom(&words).status.code(), Some(0), "{format}");
        fs::read_to_string(out).expect("a file")
    };
    let speedscope: serde_json::Value = serde_json::from_str(&written("speedscope")).expect("JSON");
    let frames = speedscope["shared"]["frames"].as_array().expect("frames");
    assert!(frames.iter().any(|frame| frame["name"] == "main::hot"), "{speedscope}");
    let sampled = &speedscope["profiles"][0];
    let [samples, weights] = ["samples", "weights"].map(|key| sampled[key].as_array());
    assert_eq!(samples.map(Vec::len), weights.map(Vec::len));
    let callgrind = written("callgrind");
    assert!(callgrind.contains(&format!("\nfl={path}\nfn=main::hot\n1 ")), "{callgrind}");
    assert!(callgrind.contains("\ncfn=main::hot\n"), "{callgrind}");
    let nowhere = drom(&["--format", "pprof", path]);
    assert_eq!((nowhere.status.code(), said(&nowhere.stdout)), (Some(2), String::new()));
    assert!(said(&nowhere.stderr).contains("-o FILE"), "{nowhere:?}");
}

/// The hot line of the script itself, and who called whom.
#[test]
fn the_page_has_a_flame_graph_and_the_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), HOT);
    let out = folder.path().join("out.html");
    let words = ["--format", "html", "-o", out.to_str().expect("text")];
    let output = drom(&[&words[..], &[path.to_str().expect("text")]].concat());
    assert_eq!((output.status.code(), said(&output.stderr)), (Some(0), String::new()));
    let html = fs::read_to_string(&out).expect("written");
    let (_, data) = html.split_once("id=\"flame-data\">").expect("data");
    let (data, _) = data.split_once("</script>").expect("an end");
    let flame: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let numbers: Vec<u64> =
        flame["nodes"].as_array().expect("nodes").iter().filter_map(|n| n.as_u64()).collect();
    let of = |name: &str| {
        let names = flame["names"].as_array().expect("names");
        let at = names.iter().position(|known| known[0] == name).expect(name) as u64;
        let node = numbers.chunks(4).find(|node| node[1] == at).expect("a node");
        (node[0], node[3])
    };
    let (main, outer, hot) = (of("main"), of("main::outer"), of("main::hot"));
    assert_eq!((main.0, outer.0, hot.0), (0, 1, 2), "{flame}");
    assert!(main.1 >= outer.1 && outer.1 >= hot.1 && hot.1 > 20, "{flame}");
    assert!(html.contains("sub hot { my $sum = 0; $sum += $_ for 1 .. 1000; $sum }"), "{html}");
    assert!(!html.contains("http://") && !html.contains("src="), "nothing from elsewhere");
}

/// As many calls as fib has, and the script's own words and status; nothing stays behind.
#[test]
fn calls_and_statements_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
                print fib(15), \"\\n\", join ' ', grep { /drom-/ } @INC, $ENV{DROM_EXACT} // '';
                exit 5;";
    let path = script(folder.path(), text);
    let scratch = tempfile::tempdir().expect("a folder");
    let exact = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
        command.args(["profile", "--exact"]).args(words).arg(&path);
        command.env("TMPDIR", scratch.path()).stdin(Stdio::null()).output().expect("it starts")
    };
    let output = exact(&[]);
    assert_eq!((output.status.code(), said(&output.stdout)), (Some(5), "610\n".to_owned()));
    let table = said(&output.stderr);
    let fib = table.lines().find(|line| line.ends_with("  main::fib")).expect("fib");
    let words: Vec<&str> = fib.split_whitespace().collect();
    assert_eq!(words[3], "1973", "{table}");
    assert!(words[4].parse::<f64>().is_ok_and(|each| each > 0.0 && each < 1e-3), "{table}");
    let tree = said(&exact(&["-T"]).stderr);
    let has = |end: &str| tree.lines().any(|line| line.ends_with(end));
    assert!(has("     main::fib x 1") && has("        main::fib x 2"), "{tree}");
    let out = folder.path().join("out.json");
    exact(&["--format", "json", "-o", out.to_str().expect("text")]);
    let shown = said(&drom(&["show", out.to_str().expect("text")]).stdout);
    assert!(shown.lines().any(|line| line.contains(" 1973 ")), "{shown}");
    let html = said(&exact(&["--format", "html"]).stderr);
    assert!(html.contains(">calls</th>") && html.contains("<td class=\"n\">1973</td>"), "{html}");
    assert!(html.contains(">runs</th>") && html.contains("<td class=\"n\">3946</td>"), "{html}");
    let same = drom(&["diff", out.to_str().expect("text"), out.to_str().expect("text")]);
    assert_eq!(same.status.code(), Some(2), "{same:?}");
    assert_eq!(fs::read_dir(scratch.path()).expect("a folder").count(), 0);
}

/// Of a program that works for a second and waits for one.
#[test]
fn waiting_takes_wall_clock_time_and_no_cpu_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "use Time::HiRes qw(time sleep); sub rest { sleep 0.02 }
                sub work { my $until = time + 0.02; 1 while time < $until }
                for (1 .. 40) { work(); rest() }";
    let path = script(folder.path(), text);
    let shares = |clock: &str| {
        let words = ["--clock", clock, "--rate", "500", "--format", "collapsed"];
        let folded = said(&drom(&[&words[..], &[path.to_str().expect("text")]].concat()).stderr);
        let of = |name: &str| -> f64 {
            let lines = folded.lines().filter(|line| line.contains(name));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        (of("main::rest"), of("main::work"))
    };
    let (rest, work) = shares("wall");
    assert!(rest > 0.5 * work && work > 50.0, "{rest} {work}");
    let (rest, work) = shares("cpu");
    assert!(rest < 0.1 * work && work > 50.0, "{rest} {work}");
}

/// Of two runs of the same script nothing is said to differ; of another one what does.
#[test]
fn profiles_are_kept_put_together_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = |name: &str, text: &str| {
        let (path, out) = (script(folder.path(), text), folder.path().join(name));
        let words = ["--rate", "400", "--format", "json", "-o", out.to_str().expect("text")];
        assert_eq!(
            drom(&[&words[..], &[path.to_str().expect("text")]].concat()).status.code(),
            Some(0)
        );
        out.to_str().expect("text").to_owned()
    };
    let more = format!("sub new_one {{ 1 for 1 .. 3000 }}\n{HOT}")
        .replace("outer() w", "(outer(), new_one()) w");
    let (first, again, other) = (kept("a", HOT), kept("b", HOT), kept("c", &more));
    let changes = |before: &str, after: &str| {
        let output = drom(&["diff", "--json", before, after]);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let changes = document["changes"].as_array().expect("changes").clone();
        let shown = changes.into_iter().filter(|change| change["is_shown"] == true);
        shown.map(|change| change["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(changes(&first, &again), [""; 0]);
    let differ = changes(&first, &other);
    assert!(differ.contains(&"main::new_one".into()) && differ.contains(&"main::hot".into()));
    let text = said(&drom(&["diff", &first, &other]).stdout);
    assert!(
        text.lines().any(|line| line.ends_with("main::new_one") && !line.contains('~')),
        "{text}"
    );
    let samples = |words: &[&str]| -> u64 {
        let text = said(&drom(words).stdout);
        text.split(' ').next().and_then(|first| first.parse().ok()).expect("samples")
    };
    let (one, two) = (samples(&["show", &first]), samples(&["show", &again]));
    assert_eq!(samples(&["show", &first, &again]), one + two);
    let wrong = drom(&["show", folder.path().join("hot.pl").to_str().expect("text")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        said(&wrong.stderr).contains("hot.pl is no profile: line 1 is no folded stack"),
        "{wrong:?}"
    );
}

/// Of Devel::DProf and Devel::NYTProf, in any form, also together.
#[test]
fn files_of_other_profilers_are_shown() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../profile/tests/data/");
    let [tmon, nytprof] = ["tmon.out", "nytprof.out"].map(|name| format!("{folder}{name}"));
    let shown = |words: &[&str]| said(&drom(&[&["show"], words].concat()).stdout);
    let table = shown(&[&tmon]);
    let first = table.lines().nth(2).expect("a row");
    assert_eq!(first, "100.0   1.170  1.170      8   0.1462 0.1462  Shop::price", "{table}");
    let tree = shown(&["-T", &nytprof]);
    assert!(tree.contains("     Shop::total x 2\n"), "{tree}");
    assert!(shown(&["--format", "callgrind", &nytprof]).contains("fn=Shop::price\n2 "));
    assert!(shown(&[&tmon, &nytprof]).starts_with("81 calls and 110 statements in 1.17 s\n"));
}

#[test]
fn the_tree_says_who_called_whom() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), HOT);
    let tree = said(&drom(&["-T", path.to_str().expect("text")]).stderr);
    let names: Vec<&str> = tree.lines().skip(2).filter_map(|line| line.get(22..)).collect();
    assert_eq!(names[..3], ["main", "   main::outer", "      main::hot"], "{tree}");
}

#[test]
fn a_script_keeps_its_output_and_status_and_its_hot_sub_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), &format!("{HOT}exit 3;\n"));
    let output = drom(&[path.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(said(&output.stdout), "hello\n");
    let table = said(&output.stderr);
    let first = table.lines().nth(2).expect("a row");
    assert!(table.contains("%Time ExclSec CumulS #Calls sec/call Csec/c  Name"), "{table}");
    assert!(first.ends_with("  main::hot"), "{table}");
}

#[test]
fn stacks_are_folded_into_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), HOT);
    let file = folder.path().join("out.folded");
    let words = ["--format", "collapsed", "--rate", "500", "-o"];
    let files = [file.to_str().expect("text"), path.to_str().expect("text")];
    let output = drom(&[&words[..], &files].concat());
    assert_eq!((output.status.code(), said(&output.stderr)), (Some(0), String::new()));
    let folded = fs::read_to_string(&file).expect("written");
    let is_hot = |line: &str| line.starts_with("main;main::outer;main::hot;CORE:");
    assert!(folded.lines().any(is_hot), "{folded}");
    let counts = folded.lines().map(|line| line.rsplit(' ').next().expect("a count"));
    assert!(counts.map(|count| count.parse::<u64>().expect("a number")).sum::<u64>() > 20);
}

#[test]
fn the_end_of_a_script_is_passed_on() {
    let ends = [("kill 9, $$;", 137), ("exit 0;", 0), ("die;", 255), ("syntax error(", 255)];
    for (text, status) in ends {
        let folder = tempfile::tempdir().expect("a folder");
        let path = script(folder.path(), text);
        assert_eq!(drom(&[path.to_str().expect("text")]).status.code(), Some(status), "{text}");
    }
}

#[test]
fn a_process_that_runs_is_looked_into_and_runs_on() {
    let mut target = target("perl", &["-e", "sub busy { 1 for 1 .. 1000 } busy() while 1"]);
    let pid = target.0.id().to_string();
    let output = drom(&["--pid", &pid, "-d", "500ms", "--rate", "200"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&output.stdout).contains("main::busy"), "{output:?}");
    assert_eq!(target.0.try_wait().expect("ours"), None, "it lives");
}

#[test]
fn what_cannot_be_looked_into_is_said() {
    let target = target("sleep", &["60"]);
    let refused = drom(&["--pid", &target.0.id().to_string()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused.stderr).contains("is no Perl"), "{refused:?}");
    let nobody = drom(&["--pid", "99999999"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(said(&nobody.stderr).contains("there is no process 99999999"), "{nobody:?}");
    for words in [&[][..], &["--rate", "0", "x.pl"], &["--pid", "1", "x.pl"], &["--pid", "x"]] {
        assert_eq!(drom(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn the_module_that_counts_stands_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("lib/perl5");
    let mut write = Command::new(env!("CARGO_BIN_EXE_drom"));
    write.args(["profile", "module"]).arg(&library);
    assert!(write.status().expect("it starts").success());
    let counts = folder.path().join("counts.out");
    let mut perl = Command::new("perl");
    perl.arg("-I").arg(&library).arg(format!("-d:Drom={}", counts.display()));
    let code = "sub twice { 2 * $_[0] } twice($_) for 1 .. 30; print qq(done\\n)";
    let output = perl.args(["-e", code]).output().expect("perl");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"done\n"[..]));
    let mut show = Command::new(env!("CARGO_BIN_EXE_drom"));
    let output = show.args(["profile", "show"]).arg(&counts).output().expect("it starts");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_it = |line: &str| line.ends_with("main::twice") && line.contains(" 30 ");
    assert!(table.lines().any(is_it), "{table}");
    assert!(library.join("Devel/Drom.pm").exists(), "it is there for the next one");
    let nowhere = ["profile", "module", "/proc/nowhere"];
    let refused = Command::new(env!("CARGO_BIN_EXE_drom")).args(nowhere).output().expect("starts");
    assert_eq!(refused.status.code(), Some(1));
}
