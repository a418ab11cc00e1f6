//! A plan of two variants that are the same small server, for tests of `drom compare`.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::{fs, path::Path};

/// Answers one connection at a time: "ok", or what the code makes of `$port` and `$n`, its
/// requests.
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
        my $body = defined $code ? eval $code : 'ok';
        syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
        last if $close;
    }
}
"#;

/// Writes server and plan into the folder; the plan's path.
pub fn plan(folder: &Path, blocks: u32) -> String {
    plan_with(folder, "", blocks, "")
}

/// The same with lines of the plan's, each with its end, and code for each answer.
pub fn plan_with(folder: &Path, settings: &str, blocks: u32, code: &str) -> String {
    fs::write(folder.join("server.pl"), SERVER).expect("written");
    let code = if code.is_empty() { String::new() } else { format!(", '{code}'") };
    let variant = |name: &str| {
        let command = format!("[\"perl\", \"{{plan_dir}}/server.pl\", \"{{port}}\"{code}]");
        format!("[[variant]]\nname = \"{name}\"\nurl = \"/\"\ncommand = {command}\n")
    };
    let plan = format!(
        "name = \"cli\"\nbaseline = \"a\"\nplacement = \"shared\"\n{settings}\
         blocks = {{ min = {blocks}, max = {blocks} }}\n[load]\nconnections = 1\n\
         slice = \"150ms\"\nwarmup = \"10ms\"\n{}{}",
        variant("a"),
        variant("b")
    );
    let path = folder.join("plan.toml");
    fs::write(&path, plan).expect("written");
    path.display().to_string()
}
