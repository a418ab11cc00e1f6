//! `drom compare` and what a wrong answer is, from outside: pages with a clock or their own port
//! are none, a server that goes wrong under load is.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Answers one connection at a time with what the code makes of `$port` and `$n`, its requests.
const SERVER: &str = r#"
use strict; use IO::Socket::INET;
my ($port, $code) = @ARGV; my $n = 0;
my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$port", Listen => 9, ReuseAddr => 1)
    or die $!;
while (my $c = $l->accept) {
    while (defined(my $line = <$c>)) {
        my $close = 0;
        while ($line =~ /\S/) { $close = 1 if $line =~ /^connection: close/i; $line = <$c> // last }
        $n++;
        my $body = eval $code;
        syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
        last if $close;
    }
}
"#;

/// Both variants run this code for each answer.
fn compare(folder: &Path, settings: &str, code: &str) -> Output {
    fs::write(folder.join("server.pl"), SERVER).expect("written");
    let variant = |name: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\nurl = \"/\"\n\
             command = [\"perl\", \"{{plan_dir}}/server.pl\", \"{{port}}\", '{code}']\n"
        )
    };
    let text = format!(
        "name = \"cli\"\nbaseline = \"a\"\nplacement = \"shared\"\n{settings}\n\
         blocks = {{ min = 6, max = 6 }}\n[load]\nconnections = 1\nslice = \"150ms\"\n\
         warmup = \"10ms\"\n{}{}",
        variant("a"),
        variant("b")
    );
    fs::write(folder.join("plan.toml"), text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("compare").arg(folder.join("plan.toml")).env("DROM_RUNS", folder.join("runs"));
    command.stdin(Stdio::null()).output().expect("runs")
}

fn text(out: &Output) -> String {
    let (text, news) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    format!("{text}\n--- stderr ---\n{news}")
}

#[test]
fn a_page_with_a_clock_is_not_wrong() {
    let folder = tempfile::tempdir().expect("scratch");
    let out = compare(folder.path(), "same_answer = true", "\"It is \" . localtime");
    // A busy machine may call the A/A pair different: 6.
    assert!(matches!(out.status.code(), Some(0 | 6)), "{}", text(&out));
    assert!(text(&out).contains("V1") && !text(&out).contains("WRONG"), "{}", text(&out));
}

#[test]
fn a_page_with_its_own_url_is_not_wrong_and_still_checked() {
    let folder = tempfile::tempdir().expect("scratch");
    let out = compare(folder.path(), "", "\"http://127.0.0.1:$port/self\"");
    assert!(matches!(out.status.code(), Some(0 | 6)), "{}", text(&out));
    assert!(!text(&out).contains("V1") && !text(&out).contains("WRONG"), "{}", text(&out));
}

#[test]
fn a_server_that_goes_wrong_under_load_is_wrong() {
    let folder = tempfile::tempdir().expect("scratch");
    let out = compare(folder.path(), "", "$n < 30 ? \"hello\" : \"good bye\"");
    assert_eq!(out.status.code(), Some(7), "{}", text(&out));
    for words in ["expected 5 bytes", "the first one has 8 bytes", "good bye"] {
        assert!(text(&out).contains(words), "{words}: {}", text(&out));
    }
}
