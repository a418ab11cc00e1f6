//! What is told of a living perl's heap, against what the perl was made to have.

#[path = "support/play.rs"]
mod play;

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use drom_profile::heap::{Class, Heap, Inventory, Variable};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/heap.pl");
const ALLOCATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/counted.c");

/// A perl that is ended with the test.
struct Play {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Play {
    fn ready(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut play = Self { child, said };
        assert_eq!(play.hear(), "ready\n");
        play
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("text");
        line
    }

    fn say(&mut self, words: &str) -> String {
        self.child.stdin.as_mut().expect("a pipe").write_all(words.as_bytes()).expect("it listens");
        self.hear()
    }

    fn heap(&self) -> Heap {
        Heap::of(self.child.id() as i32).expect("a perl")
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Play {
    Play::ready(play::plain().arg(play::inside(PROGRAM)))
}

fn variable<'i>(inventory: &'i Inventory, name: &str) -> &'i Variable {
    let found = inventory.variables.iter().find(|variable| variable.name == name);
    found.unwrap_or_else(|| panic!("{name} in {:#?}", inventory.variables))
}

/// Chunks of the allocator for so many bytes.
fn chunk(bytes: u64) -> u64 {
    (bytes + 8).next_multiple_of(16).max(32)
}

#[test]
fn nearly_every_byte_has_a_name() {
    let perl = Play::ready(play::plain().args([
        "-MPOSIX",
        "-MJSON::PP",
        "-MData::Dumper",
        "-MFile::Find",
        "-MText::Wrap",
        "-e",
        "$| = 1; print qq(ready\\n); <STDIN>",
    ]));
    let heap = perl.heap();
    let books = heap.books();
    assert!(books.named() > 0.99, "{:.3} {:?}", books.named(), books.totals);
    let code = books.totals[Class::Code as usize];
    assert!(code > books.used() / 3, "{:?}", books.totals);
    let inventory = heap.inventory();
    let told: u64 = inventory.packages.iter().map(|package| package.bytes).sum();
    assert!(told > books.used() / 2, "{told} of {}", books.used());
    let json = inventory.packages.iter().find(|package| package.name == "JSON::PP");
    assert!(
        json.is_some_and(|json| json.subs > 80 && json.subs_bytes > json.bytes / 2),
        "{json:?}"
    );
}

#[test]
fn values_are_found_where_the_program_keeps_them() {
    let inventory = program().heap().inventory();
    // Each string has a body, a head and a buffer of 10 bytes more than it is long.
    let rows = variable(&inventory, "@Shop::rows");
    let each = 24 + 16 + chunk(1_010);
    assert!((300 * each..301 * each + 8_192).contains(&rows.bytes), "{rows:?} {each}");
    assert_eq!(rows.values, 301);
    let big = variable(&inventory, "$main::big");
    assert!((3_000_000..3_010_000).contains(&big.bytes), "{big:?}");
    let cache = variable(&inventory, "%Shop::cache");
    // A reference and its hash, a name, another reference, its array and five elements; the program
    // itself still has what it handled last.
    assert!((500 * 10..=500 * 10 + 1).contains(&cache.values), "{cache:?}");
    // Two subs and the program have it, and it is the program's.
    let private = variable(&inventory, "$private in main program");
    assert!(private.bytes > 100 * (24 + chunk(2_010)), "{private:?}");
    let count = inventory.variables.iter().find(|one| one.name.starts_with("$count in Shop::"));
    assert!(count.is_some_and(|count| count.values == 1), "{count:?}");
}

#[test]
fn no_key_that_is_data_is_shown() {
    let heap = program().heap();
    let told = format!("{:?}", heap.inventory());
    assert!(told.contains("$main::secret") && !told.contains("joe@"), "{told}");
}

#[test]
fn rings_that_nothing_holds_are_told() {
    let lost = program().heap().inventory().lost;
    let nodes = lost.kinds.iter().find(|(kind, _)| kind == "HASH blessed into Node");
    // What looks like a pointer in some old buffer may hold one of them.
    assert!(nodes.is_some_and(|(_, count)| (18..=20).contains(count)), "{lost:?}");
    let is_one = |ring: &&String| ring.contains("{child}") && ring.contains("{parent}");
    let ring = lost.cycles.iter().find(is_one).expect("a ring");
    assert!(ring.contains(" x HASH blessed into Node {"), "{lost:?}");
    // What the program still has is not lost: a closure that calls itself is its variable's.
    assert!(!lost.cycles.iter().any(|ring| ring.contains("$again")), "{lost:?}");
}

#[test]
fn what_grew_is_found_between_two_looks() {
    let mut play = program();
    let before = play.heap().inventory();
    assert_eq!(play.say("grow\n"), "done\n");
    let after = play.heap().inventory();
    let grown = drom_profile::heap::grown(&before, &after);
    let first = grown.first().expect("something");
    assert_eq!((&first.name[..], first.values), ("@Shop::rows", 200), "{grown:?}");
    assert!(first.bytes > 200 * 1_040 && first.bytes < 220 * 1_100, "{first:?}");
}

#[test]
fn lines_have_their_operators() {
    let heap = program().heap();
    let inventory = heap.inventory();
    let add = inventory.subs.iter().find(|sub| &*sub.name == "Shop::add").expect("a sub");
    let (lines, ops) = heap.lines(add.node);
    let numbers: Vec<u32> = lines.iter().map(|line| line.line).collect();
    assert_eq!(numbers, [11, 12, 13, 14], "{lines:?}");
    let sum: u64 = lines.iter().map(|line| line.bytes).sum();
    assert_eq!(sum, ops.iter().map(|op| op.bytes).sum::<u64>());
    let multiply = ops.iter().find(|op| op.name == "multiply").expect("it multiplies");
    // An operator with two operands and a header of 8 bytes.
    assert_eq!((multiply.count, multiply.bytes), (1, 64), "{ops:?}");
    assert_eq!(ops.iter().find(|op| op.name == "nextstate").map(|op| op.count), Some(4));
    // All of its slabs: operators, those that were, and room that none ever had.
    let header = 40;
    let slabs = heap.code(add.node).expect("code").slabs.len() as u64;
    let apart = heap.code(add.node).expect("code").ops.iter().filter(|op| op.is_apart);
    let in_slabs = sum - apart.clone().map(|op| u64::from(op.bytes)).sum::<u64>();
    let slab_bytes = add.code_bytes - apart.map(|op| u64::from(op.bytes)).sum::<u64>();
    let rest = slab_bytes - in_slabs - add.freed_bytes - add.unused_bytes - slabs * header;
    assert_eq!(rest, 0, "{add:?}");
}

/// What the allocator gave and has not got back: where, how and how many bytes.
fn living(log: &Path) -> HashMap<u64, (u8, u64)> {
    let bytes = fs::read(log).expect("a log");
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight"));
    let mut living = HashMap::new();
    for record in bytes.chunks_exact(24) {
        let (what, at) = (record[0], number(&record[8..16]));
        match what {
            b'f' => drop(living.remove(&at)),
            _ => drop(living.insert(at, (what, number(&record[16..])))),
        }
    }
    living
}

/// The sizes of slabs that perl makes: twice as many words each time.
fn is_slab(bytes: u64) -> bool {
    (6..=11).any(|power| bytes == 8 * (1 << power) + 40)
}

#[test]
fn code_is_what_a_counting_allocator_says() {
    if play::root().is_some() {
        return println!("skipped: the allocator is built for this system");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (library, log) = (folder.path().join("counted.so"), folder.path().join("log"));
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([library.as_os_str(), ALLOCATOR.as_ref()])
        .status();
    assert!(built.expect("gcc").success());
    let mut perl = Command::new("perl");
    perl.arg(PROGRAM).env("LD_PRELOAD", &library).env("COUNTED", &log);
    let play = Play::ready(&mut perl);
    let (heap, living) = (play.heap(), living(&log));
    let inventory = heap.inventory();
    let mut known = HashSet::new();
    let mut made = 0;
    for sub in &inventory.subs {
        let Some(code) = heap.code(sub.node) else { continue };
        for (at, bytes) in &code.slabs {
            assert_eq!(living.get(at), Some(&(b'c', *bytes)), "a slab of {}", sub.name);
            known.insert(*at);
        }
        let apart = code.ops.iter().filter(|op| op.is_apart);
        for op in apart {
            assert_eq!(
                living.get(&op.at),
                Some(&(b'c', op.bytes.into())),
                "{op:?} of {}",
                sub.name
            );
        }
        made += usize::from(sub.name.starts_with("Made::"));
    }
    assert_eq!(made, 20);
    // And there are no others but those of the main program.
    let main = heap.main_slabs();
    let of_slabs = living.iter().filter(|(_, (what, bytes))| *what == b'c' && is_slab(*bytes));
    let unknown: Vec<_> =
        of_slabs.filter(|(at, _)| !known.contains(*at) && !main.contains(*at)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_program_goes_on_as_if_nothing_had_been() {
    let mut play = program();
    for _ in 0..20 {
        assert!(play.heap().pause().is_some());
    }
    assert_eq!(play.say("grow\n"), "done\n");
    drop(play.child.stdin.take());
    assert!(play.child.wait().expect("it ends").success());
}

#[test]
fn what_is_no_perl_is_refused() {
    let mut sleeper = Command::new("sleep").arg("20").spawn().expect("sleep");
    let error = Heap::of(sleeper.id() as i32).err().expect("no perl").to_string();
    sleeper.kill().and_then(|()| sleeper.wait()).expect("ends");
    assert!(error.contains("is no Perl"), "{error}");
    let error = Heap::of(sleeper.id() as i32).err().expect("gone").to_string();
    assert!(error.contains("there is no process"), "{error}");
}
