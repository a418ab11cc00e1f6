//! What a request must not leave behind for the next one of its worker: @INC, the standard handles
//! and what is tied to them, formats, the handle that messages name.

use drom_perl::{End, RunFlags};

use crate::{
    Case,
    cases::cases,
    fake::Fake,
    perl::{Perl, flags},
};

pub fn all() -> Vec<Case> {
    cases![
        changes_of_inc_end_with_the_request
        inc_of_start_up_and_of_modperl_handlers_stays
        tied_standard_handles_end_with_the_request
        replaced_standard_handles_end_with_the_request
        a_slurp_at_the_end_of_input_is_defined_each_time
        formats_end_with_the_request
        messages_do_not_name_a_handle_of_another_request
    ]
}

/// A script that prints its STDIN works as if it were the first.
fn assert_works(perl: &mut Perl, after: &str) {
    let mut fake = Fake::post("/", "text/plain", b"body");
    perl.script("print 'read '; print <STDIN>; printf STDOUT ' %s', 'end';", &mut fake);
    assert_eq!(fake.shown(), "read body end", "after {after}");
}

const SHOW_INC: &str = "print join '|', map { ref || $_ } @INC;";

fn shown_inc(perl: &mut Perl) -> String {
    let mut fake = Fake::get("/");
    perl.script(SHOW_INC, &mut fake);
    fake.shown()
}

fn changes_of_inc_end_with_the_request() {
    let mut perl = Perl::start();
    let before = shown_inc(&mut perl);
    assert!(before.starts_with('/'), "{before}");
    for script in [
        "push @INC, '/a'",
        "unshift @INC, '/a', sub { }",
        "unshift @INC, bless [], 'Gone'; sub Gone::DESTROY { exit 3 }",
        "use lib '/a', '/b'; die 'dead'",
        "no lib '/usr/share/perl5'; exit",
        "@INC = ('/a')",
        "@INC = ()",
        "pop @INC",
        "@INC = reverse @INC",
        "$INC[1] =~ tr{/}{:}",
        "substr($INC[1], 0, 1) = 'X'",
        "$INC[-1] = undef",
        "$INC[0] = '/a'",
        "local @INC = ('/a'); push @INC, '/b'; exit",
        "*INC = ['/a']",
        "undef *INC",
        "require Tie::Array; tie @INC, 'Tie::StdArray'; push @INC, '/a'",
    ] {
        perl.script(script, &mut Fake::get("/"));
        assert_eq!(shown_inc(&mut perl), before, "after {script}");
        perl.check("require Apache2::URI; require Text::Wrap", &mut Fake::get("/"));
    }
    perl.script("our $kept = \\@INC; @INC = (@INC, '/a')", &mut Fake::get("/"));
    perl.check("is($main::kept, \\@INC, 'the same array')", &mut Fake::get("/"));
    perl.script("our @places = map { \\$_ } @INC", &mut Fake::get("/"));
    perl.check(
        "is(join(',', map { \\$_ } @INC), join(',', @main::places), 'untouched, not made again')",
        &mut Fake::get("/"),
    );
    let in_the_same = "use lib '/only/now'; print $INC[0];";
    let mut fake = Fake::get("/");
    perl.script(in_the_same, &mut fake);
    assert_eq!(fake.shown(), "/only/now", "what `use lib` said holds for the run that follows");
    assert_eq!(shown_inc(&mut perl), before);
}

fn inc_of_start_up_and_of_modperl_handlers_stays() {
    let mut perl = Perl::start();
    perl.interpreter.require("lib; unshift @INC, '/started'", false).unwrap();
    assert!(shown_inc(&mut perl).starts_with("/started|"));
    let bare = RunFlags { script_io: false, ..flags() };
    let handler = perl.compile("unshift @INC, '/handler'; 0");
    assert_eq!(perl.run(handler, bare, &mut Fake::get("/")).end, End::Returned(0));
    perl.script("push @INC, '/script'", &mut Fake::get("/"));
    let inc = shown_inc(&mut perl);
    assert!(inc.starts_with("/handler|/started|") && !inc.contains("/script"), "{inc}");
}

/// A class whose handles swallow everything.
const CAPTURE: &str = "package Cap; sub TIEHANDLE { bless {} } sub PRINT { 1 } sub PRINTF { 1 }
    sub READLINE { 'tied' } sub DESTROY { print STDERR '' } package main;\n";

fn tied_standard_handles_end_with_the_request() {
    let mut perl = Perl::start();
    for script in [
        "tie *STDOUT, 'Cap'; print 'x'; die 'dead'",
        "tie *STDOUT, 'Cap'; print 'x'; exit",
        "tie *STDIN, 'Cap'; <STDIN>",
        "$main::kept = tie *STDIN, 'Cap'; tie *STDOUT, 'Cap'",
        "tie *STDERR, 'Cap'; $main::kept = \\*STDERR",
        "tie *STDERR, 'Cap'; exit",
        "tie *STDIN, 'Cap'; *Cap::DESTROY = sub { exit 3 }",
    ] {
        perl.script(&format!("{CAPTURE}{script}"), &mut Fake::get("/"));
        assert_works(&mut perl, script);
        perl.check("ok(!tied *STDERR, 'STDERR is not tied')", &mut Fake::get("/"));
    }
    perl.script("$main::kept = undef", &mut Fake::get("/"));
    let quiet = "Carp; *Quiet::TIEHANDLE = sub { bless [], 'Quiet' }; tie *STDERR, 'Quiet'";
    perl.interpreter.require(quiet, false).unwrap();
    perl.script("untie *STDERR; tie *STDERR, 'Quiet'", &mut Fake::get("/"));
    perl.check("ok(tied *STDERR, 'the tie of start-up code stays')", &mut Fake::get("/"));
}

fn replaced_standard_handles_end_with_the_request() {
    let mut perl = Perl::start();
    for script in [
        "undef *STDIN",
        "undef *STDOUT",
        "*STDIN = *F; open F, '<', '/dev/null'",
        "*STDOUT = *F; open F, '>', '/dev/null'; print 'to F'",
        "*STDOUT = *STDERR; print 'to the log'",
        "*STDOUT = *STDERR{IO}; print 'to the log'",
        "*STDIN = *STDERR{IO}",
        "*STDERR = *STDOUT; print STDERR 'to the page'",
        "*OLD = *STDOUT; *STDOUT = *F; print 'to F'; *STDOUT = *OLD; print 'back'",
        "local *STDOUT = *F; print 'to F'; exit",
        "local *STDIN; undef *STDIN; die 'dead'",
        "open OLD, '>&', \\*STDOUT; close STDOUT; open STDOUT, '>&', \\*OLD; print 'back'",
        "*STDIN = *STDOUT; *STDOUT = *Nowhere",
        "my $out = *STDOUT{IO}; undef *STDOUT; print $out 'kept'",
        "select do { tie *SEL, 'Bye'; \\*{delete $main::{SEL}} }; sub Bye::TIEHANDLE { bless [] }
            sub Bye::DESTROY { exit 3 }",
        "delete $main::{STDOUT}",
        "opendir STDIN, '/'; opendir STDOUT, '/'",
        "*STDOUT = *Made::Out; undef *Made::Out; undef *STDIN; select STDERR; exit",
    ] {
        for _ in 0..2 {
            perl.script(script, &mut Fake::get("/"));
            assert_works(&mut perl, script);
        }
    }
    perl.script("open STDERR, '>&STDOUT' or print 'refused'", &mut Fake::get("/"));
    let mut fake = Fake::get("/");
    perl.script("print STDERR 'not for the page'; print 'page'", &mut fake);
    assert_eq!(fake.shown(), "page");
    perl.check(
        "is(*STDOUT{NAME}, 'STDOUT', 'its name'); ok(fileno(STDERR) == 2, 'STDERR is the log')",
        &mut Fake::get("/"),
    );
}

fn a_slurp_at_the_end_of_input_is_defined_each_time() {
    let mut perl = Perl::start();
    for _ in 0..3 {
        perl.check("my $x = do { local $/; <STDIN> }; is($x, '', 'slurped')", &mut Fake::get("/"));
    }
}

fn formats_end_with_the_request() {
    let mut perl = Perl::start();
    perl.script("$~ = 'MINE'; $^ = 'MY_TOP'; $= = 7; $% = 3; $- = 2;", &mut Fake::get("/"));
    perl.check(
        "is($~, 'STDOUT', 'format'); is($^, 'STDOUT_TOP', 'top'); is($=, 60, 'lines of a page');
         is($%, 0, 'page'); is($-, 0, 'lines left');",
        &mut Fake::get("/"),
    );
}

fn messages_do_not_name_a_handle_of_another_request() {
    let mut perl = Perl::start();
    perl.script("open our $f, '<', '/etc/passwd'; <$f>; <$f>;", &mut Fake::get("/"));
    perl.check(
        "eval { die 'x' }; is($@, \"x at snippet line 1.\\n\", 'no handle'); is($., undef, '$.')",
        &mut Fake::get("/"),
    );
}
