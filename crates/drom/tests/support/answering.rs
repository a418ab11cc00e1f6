//! A plan of two variants that are the same small server, for tests of `drom compare`.

use std::{fs, path::Path};

/// Answers one connection at a time.
const SERVER: &str = r#"
use strict; use IO::Socket::INET;
my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$ARGV[0]", Listen => 9, ReuseAddr => 1)
    or die $!;
while (my $c = $l->accept) {
    while (defined(my $line = <$c>)) {
        my $close = 0;
        while ($line =~ /\S/) { $close = 1 if $line =~ /^connection: close/i; $line = <$c> // last }
        syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        last if $close;
    }
}
"#;

/// Writes server and plan into the folder; the plan's path.
pub fn plan(folder: &Path, blocks: u32) -> String {
    fs::write(folder.join("server.pl"), SERVER).expect("written");
    let variant = |name: &str| {
        let command = "[\"perl\", \"{plan_dir}/server.pl\", \"{port}\"]";
        format!("[[variant]]\nname = \"{name}\"\nurl = \"/\"\ncommand = {command}\n")
    };
    let plan = format!(
        "name = \"cli\"\nbaseline = \"a\"\nplacement = \"shared\"\n\
         blocks = {{ min = {blocks}, max = {blocks} }}\n[load]\nconnections = 1\n\
         slice = \"150ms\"\nwarmup = \"10ms\"\n{}{}",
        variant("a"),
        variant("b")
    );
    let path = folder.join("plan.toml");
    fs::write(&path, plan).expect("written");
    path.display().to_string()
}
