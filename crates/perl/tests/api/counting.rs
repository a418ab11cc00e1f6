//! Counting that is turned on and off between requests: what is counted, and what is left when
//! descriptors are refused. Central noun: the file of counts.

use std::{fs, io::Read, path::PathBuf};

use drom_perl::{COUNTS, Counting};

use crate::{
    Case,
    cases::cases,
    fake::Fake,
    perl::{Perl, flags},
};

pub fn all() -> Vec<Case> {
    cases![
        counting_begins_and_ends_between_requests
        counting_without_descriptors_is_off_again
    ]
}

const SCRIPT: &str = "print '';\n\
    sub called { return $_[0] =~ /x/ ? 1 : 0 }\n\
    called('x') for 1 .. 3;\n\
    my $text = 'ab'; $text =~ s/(\\w)/called($1)/ge;\n\
    eval { die { code => called('y') } };\n\
    my $closure = sub { called($text) }; $closure->();\n\
    eval 'called(1)';\n";
const CALLED: u64 = 3 + 2 + 1 + 1 + 1;

fn ask(perl: &Perl, what: Counting) {
    // SAFETY: it may be called from anywhere.
    unsafe { (perl.interpreter.count_function())(what as i32) };
    perl.interpreter.settle_counting();
}

fn file() -> Option<PathBuf> {
    let wanted = format!("/memfd:{COUNTS} (deleted)");
    let entries = fs::read_dir("/proc/self/fd").expect("it is there").flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| fs::read_link(path).is_ok_and(|to| to.as_os_str() == &*wanted))
}

/// Calls of the script's sub, of the file that is there.
fn called() -> u64 {
    let mut text = String::new();
    let file = fs::File::open(file().expect("counts"));
    file.and_then(|mut file| file.read_to_string(&mut text)).expect("text");
    assert!(text.ends_with("end\n"), "{text}");
    let nodes = text.lines().filter(|line| line.starts_with("s ") && line.ends_with("::called"));
    nodes.map(|line| line.split(' ').nth(3).expect("calls").parse::<u64>().expect("calls")).sum()
}

fn counting_begins_and_ends_between_requests() {
    let mut perl = Perl::start();
    let handler = perl.compile(SCRIPT);
    let run = |perl: &mut Perl, times: u64| {
        (0..times).for_each(|_| drop(perl.run(handler, flags(), &mut Fake::get("/x"))));
    };
    run(&mut perl, 1);
    for times in [1, 5, 0, 2] {
        ask(&perl, Counting::On);
        ask(&perl, Counting::On);
        run(&mut perl, times);
        assert_eq!(file(), None, "before it is over");
        ask(&perl, Counting::Off);
        run(&mut perl, 1);
        assert_eq!(called(), times * CALLED);
    }
    ask(&perl, Counting::Forget);
    assert_eq!(file(), None);
    ask(&perl, Counting::On);
    ask(&perl, Counting::Forget);
    assert_eq!(file(), None);
    run(&mut perl, 1);
}

fn counting_without_descriptors_is_off_again() {
    let mut perl = Perl::start();
    let handler = perl.compile(SCRIPT);
    for call in 1..=2 {
        ask(&perl, Counting::On);
        perl.run(handler, flags(), &mut Fake::get("/x"));
        perl.interpreter.refuse(call);
        ask(&perl, Counting::Off);
        perl.interpreter.refuse(0);
        assert_eq!(file(), None, "refused");
        perl.run(handler, flags(), &mut Fake::get("/x"));
    }
    ask(&perl, Counting::On);
    perl.run(handler, flags(), &mut Fake::get("/x"));
    ask(&perl, Counting::Off);
    assert_eq!(called(), CALLED);
}
