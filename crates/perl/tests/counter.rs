//! Devel::Drom in a perl of its own: each way in which Perl calls a sub is counted as what it is,
//! and the program does not notice.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const SCENES: &str = r#"
use strict; use warnings; use List::Util qw(first);
sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
sub outer { inner(@_) }
sub inner { my @sorted = sort { by($a, $b) } @_; $sorted[0] }
sub by { $_[0] <=> $_[1] }
sub dies { die "x\n" }
sub catches { eval { dies() }; 1 }
sub jumps { goto &lands }
sub lands { 7 }
sub lastly { no warnings; last }
package Obj {
    use overload '""' => sub { "obj" };
    sub new { bless {}, shift }
    sub DESTROY { 1 }
}
package Tied { sub TIESCALAR { bless [], shift } sub FETCH { 5 } }
package main;
fib(10);
outer(3, 1, 2);
catches() for 1 .. 3;
my @both = (eval { dies() }, eval { dies() });
jumps();
{ my $object = Obj->new; my $text = "$object" }
tie my $tied, 'Tied';
my $sum = $tied + $tied;
my $found = first { $_ > 2 } 1 .. 5;
my $anon = sub { 1 };
$anon->() for 1 .. 4;
for (1 .. 2) { lastly() }
sub wants { main::signalled() if 0 } $SIG{USR1} = sub { signalled() }; sub signalled { 1 }
kill USR1 => $$;
local $_ = "ab"; s/(\w)/twice($1)/ge; sub twice { $_[0] x 2 }
eval "sub made { 1 } made() for 1 .. 2; 1" or die;
print "done $sum $_\n";
END { fib(3) }
exit 3;
"#;

fn counting(folder: &Path, words: &[&str]) -> Output {
    drom_perl::write_counter(folder).expect("built with Perl").expect("written");
    let include = format!("-I{}", folder.display());
    Command::new("perl").arg(include).args(words).output().expect("perl is there")
}

/// Calls by name, from all ways.
fn calls(file: &str, name: &str) -> u64 {
    let nodes = file.lines().filter_map(|line| {
        let words: Vec<&str> = line.splitn(7, ' ').collect();
        let is_node = matches!(words[0], "s" | "x") && words.len() == 7;
        (is_node && words[6] == name).then(|| words[3].parse::<u64>().expect("calls"))
    });
    nodes.sum()
}

#[test]
fn every_way_to_call_a_sub_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (script, out) = (folder.path().join("scenes.pl"), folder.path().join("counts"));
    fs::write(&script, SCENES).expect("written");
    let flag = format!("-d:Drom={}", out.display());
    let output = counting(folder.path(), &[&flag, script.to_str().expect("text")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done 10 aabb\n");
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr)),
        (Some(3), "".into())
    );
    let file = fs::read_to_string(&out).expect("counts");
    for (name, expected) in [
        // 177 of fib(10), 5 of fib(3) at the end.
        ("main::fib", 182),
        ("main::outer", 1),
        ("main::inner", 1),
        ("main::by", 3),
        ("main::dies", 5),
        ("main::catches", 3),
        ("main::jumps", 1),
        ("main::lands", 1),
        ("main::lastly", 1),
        ("Obj::new", 1),
        ("Obj::DESTROY", 1),
        ("Tied::TIESCALAR", 1),
        ("Tied::FETCH", 2),
        ("List::Util::first", 1),
        ("main::signalled", 1),
        ("main::wants", 0),
        ("main::twice", 2),
        ("main::made", 2),
        ("main::END", 1),
    ] {
        assert_eq!(calls(&file, name), expected, "{name}\n{file}");
    }
    let anon = format!("main::__ANON__[{}:28]", script.display());
    assert_eq!(calls(&file, &anon), 4, "{file}");
    let runs = |line: u32| -> u64 {
        let place = format!(" {}", script.display());
        let lines = file.lines().filter(|text| text.starts_with(&format!("line {line} ")));
        let lines = lines.filter(|text| text.ends_with(&place));
        lines.filter_map(|text| text.split(' ').nth(2)?.parse::<u64>().ok()).sum()
    };
    // Two statements a call of fib.
    assert_eq!((runs(3), runs(20), runs(6)), (364, 1, 3), "{file}");
    assert!(file.starts_with("drom-counts 1\n") && file.ends_with("\nend\n"));
}

/// The program goes on, and what was counted until then is told.
#[test]
fn where_memory_is_refused_counting_ends_and_the_program_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("counts");
    let mut cut = 0;
    for call in 0..60 {
        let begin = format!(
            "use Devel::Drom (); BEGIN {{ Devel::Drom::count('{}', 'x', {call}) }} \
             sub a {{ my $n = shift; $n ? b($n - 1) : 1 }} sub b {{ a(@_) + 1 }} \
             print a(20), \"\\n\"; exit 4;",
            out.display()
        );
        let output = counting(folder.path(), &["-e", &begin]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((output.status.code(), &*said), (Some(4), "21\n"), "{call}: {output:?}");
        let file = fs::read_to_string(&out).expect("a file");
        cut += usize::from(file.contains("\ncut\n"));
        assert!(file.ends_with("\nend\n"), "{call}: {file}");
    }
    assert!(cut > 20, "{cut} of 60 were refused");
}

#[test]
fn a_forked_process_counts_for_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("counts");
    let flag = format!("-d:Drom={}", out.display());
    let text = "sub f { 1 } f(); f(); my $pid = fork; if (!$pid) { f() for 1 .. 5; exit } \
                waitpid $pid, 0; f(); print $pid";
    let output = counting(folder.path(), &[&flag, "-e", text]);
    let child = String::from_utf8_lossy(&output.stdout).into_owned();
    let file = |path: &Path| fs::read_to_string(path).expect("a file");
    assert_eq!(calls(&file(&out), "main::f"), 3);
    assert_eq!(calls(&file(&folder.path().join(format!("counts.{child}"))), "main::f"), 5);
}

/// Ways among several subs are many: they are folded, and no call is lost.
#[test]
fn recursion_in_all_directions_stays_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("counts");
    let flag = format!("-d:Drom={}", out.display());
    let text = "no warnings 'recursion'; my ($n, $calls) = (1, 0); \
                sub a { $calls++; my $d = shift or return; go($d - 1) } \
                sub b { $calls++; go(shift() - 1) } \
                sub c { $calls++; go(shift() - 1) } \
                sub go { my $d = shift; return if $d <= 0; \
                $n = ($n * 1103515245 + 12345) & 0x7fffffff; \
                (\\&a, \\&b, \\&c)[$n / 65536 % 3]->($d) } \
                go(60) for 1 .. 4000; go(3000); print $calls";
    let output = counting(folder.path(), &[&flag, "-e", text]);
    let counted: u64 = String::from_utf8_lossy(&output.stdout).parse().expect("a number");
    let file = fs::read_to_string(&out).expect("a file");
    let found: u64 = ["main::a", "main::b", "main::c"].map(|name| calls(&file, name)).iter().sum();
    assert_eq!(found, counted);
    assert!(file.len() < 16_000_000, "{}", file.len());
}
