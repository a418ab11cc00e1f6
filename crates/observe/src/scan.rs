//! All processes again and again, cheaply: one read of `/proc/PID/stat` for each, into a buffer
//! that is kept, and what does not change remembered. Memory proper (PSS, USS) costs the kernel a
//! walk through the process's pages: a [`Scanner`] looks at what is asked for, and at the others in
//! turn.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::CStr,
    fs,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use crate::{Memory, clock, memory, process_cpu};

/// A process at the last scan.
#[derive(Clone, Debug)]
pub struct Seen {
    pub pid: i32,
    pub parent: i32,
    pub uid: u32,
    /// As `ps` has it: R, S, D, Z, T and others.
    pub state: char,
    pub threads: u32,
    /// In clock ticks since boot; with the number it tells processes apart.
    pub start_ticks: u64,
    /// The kernel's name of it, of 15 bytes at most.
    pub name: Arc<str>,
    /// Empty of a kernel thread, and of one that has ended.
    pub arguments: Arc<[String]>,
    /// Of one CPU since the scan before; `None` at first sight.
    pub cpu_percent: Option<f64>,
    pub cpu: Duration,
    pub rss_bytes: u64,
    pub memory: Option<Memory>,
    /// Of its own memory (USS) since it was looked at first.
    pub growth_bytes: Option<i64>,
}

#[derive(Debug)]
pub struct Scanner {
    proc: OwnedFd,
    buffer: Vec<u8>,
    page_bytes: u64,
    known: HashMap<i32, Known>,
    scanned_ns: u64,
    scans: u64,
    /// The process that was looked at last in turn.
    turn: i32,
}

/// What is kept of a process between scans.
#[derive(Debug)]
struct Known {
    start_ticks: u64,
    name: Arc<str>,
    arguments: Arc<[String]>,
    cpu: Duration,
    memory: Option<Memory>,
    first_uss_bytes: Option<u64>,
    /// The scan that saw it last.
    scan: u64,
}

/// The fields of `/proc/PID/stat` that a table needs (`proc_pid_stat(5)`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields<'a> {
    name: &'a [u8],
    state: u8,
    parent: i32,
    ticks: u64,
    threads: u32,
    start_ticks: u64,
    rss_pages: u64,
}

/// Longer command lines are cut.
const ARGUMENTS_MAX: usize = 4096;

impl Scanner {
    /// # Errors
    /// That there is no `/proc`.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            proc: fs::File::open("/proc")?.into(),
            buffer: vec![0; ARGUMENTS_MAX],
            page_bytes: page_bytes(),
            known: HashMap::new(),
            scanned_ns: 0,
            scans: 0,
            turn: 0,
        })
    }

    /// Every process that can be seen, by number.
    pub fn scan(&mut self) -> Vec<Seen> {
        self.scans += 1;
        let now_ns = clock::monotonic_ns();
        let passed = Duration::from_nanos(now_ns - self.scanned_ns);
        let passed = (self.scanned_ns != 0).then_some(passed);
        self.scanned_ns = now_ns;
        let mut seen: Vec<Seen> =
            pids().into_iter().filter_map(|pid| self.see(pid, passed)).collect();
        seen.sort_unstable_by_key(|seen| seen.pid);
        let scan = self.scans;
        self.known.retain(|_, known| known.scan == scan);
        seen
    }

    /// Looks at the memory of these and of so many others, those first that were not looked at for
    /// longest, and at the command lines of these (a program may change its own).
    pub fn look(&mut self, seen: &mut [Seen], shown: &[i32], others: usize) {
        let in_turn = self.in_turn(seen, shown, others);
        for pid in shown.iter().chain(&in_turn) {
            self.measure(*pid);
        }
        for pid in shown {
            let arguments = self.arguments(*pid);
            if let Some(known) = self.known.get_mut(pid)
                && *known.arguments != *arguments
            {
                known.arguments = arguments.into();
            }
        }
        for seen in seen {
            let Some(known) = self.known.get(&seen.pid) else { continue };
            seen.memory = known.memory;
            seen.growth_bytes = known.growth_bytes();
            seen.arguments = Arc::clone(&known.arguments);
        }
    }

    /// A round goes by number and begins anew behind the last process.
    fn in_turn(&mut self, seen: &[Seen], shown: &[i32], others: usize) -> Vec<i32> {
        let from = seen.partition_point(|seen| seen.pid <= self.turn);
        let round = seen[from..].iter().chain(&seen[..from]);
        let has_memory = |seen: &&Seen| seen.rss_bytes > 0 && !shown.contains(&seen.pid);
        let next: Vec<i32> = round.filter(has_memory).map(|s| s.pid).take(others).collect();
        self.turn = next.last().copied().unwrap_or(self.turn);
        next
    }

    fn measure(&mut self, pid: i32) {
        let Some(known) = self.known.get_mut(&pid) else { return };
        known.memory = memory(pid);
        let uss_bytes = known.memory.map(|memory| memory.uss_bytes);
        known.first_uss_bytes = known.first_uss_bytes.or(uss_bytes);
    }

    fn see(&mut self, pid: i32, passed: Option<Duration>) -> Option<Seen> {
        let length = read_at(&self.proc, pid, c"stat", &mut self.buffer)?;
        let stat = std::mem::take(&mut self.buffer);
        let seen = Fields::parse(&stat[..length]).map(|fields| self.seen(pid, &fields, passed));
        self.buffer = stat;
        seen
    }

    fn seen(&mut self, pid: i32, fields: &Fields, passed: Option<Duration>) -> Seen {
        let ticks = Duration::from_secs_f64(fields.ticks as f64 / crate::process::ticks_per_s());
        let cpu = process_cpu(pid).unwrap_or(ticks);
        self.learn(pid, fields);
        let scan = self.scans;
        let known = self.known.get_mut(&pid).expect("it was just learned");
        let is_old = std::mem::replace(&mut known.scan, scan) != 0;
        let before = std::mem::replace(&mut known.cpu, cpu);
        let used = cpu.saturating_sub(before).as_secs_f64();
        let passed = passed.filter(|passed| is_old && !passed.is_zero());
        Seen {
            pid,
            parent: fields.parent,
            uid: owner(&self.proc, pid).unwrap_or(0),
            state: fields.state.into(),
            threads: fields.threads,
            start_ticks: fields.start_ticks,
            name: Arc::clone(&known.name),
            arguments: Arc::clone(&known.arguments),
            cpu_percent: passed.map(|passed| 100.0 * used / passed.as_secs_f64()),
            cpu,
            rss_bytes: fields.rss_pages.saturating_mul(self.page_bytes),
            memory: known.memory,
            growth_bytes: known.growth_bytes(),
        }
    }

    /// A number may be another process's by now, and a process another program's.
    fn learn(&mut self, pid: i32, fields: &Fields) {
        let known = self.known.get(&pid);
        let is_same = |known: &Known| known.start_ticks == fields.start_ticks;
        if known.is_some_and(|k| is_same(k) && k.name.as_bytes() == fields.name) {
            return;
        }
        let name = String::from_utf8_lossy(fields.name);
        let (cpu, scan) =
            known.filter(|k| is_same(k)).map_or_else(Default::default, |k| (k.cpu, k.scan));
        let known = Known {
            start_ticks: fields.start_ticks,
            name: name.into(),
            arguments: self.arguments(pid).into(),
            cpu,
            memory: None,
            first_uss_bytes: None,
            scan,
        };
        self.known.insert(pid, known);
    }

    /// In a buffer of its own: the scanner's may hold what is being read.
    fn arguments(&self, pid: i32) -> Vec<String> {
        let mut buffer = [0; ARGUMENTS_MAX];
        let length = read_at(&self.proc, pid, c"cmdline", &mut buffer).unwrap_or(0);
        words(&buffer[..length])
    }
}

impl Known {
    fn growth_bytes(&self) -> Option<i64> {
        let now = self.memory?.uss_bytes;
        Some(now.cast_signed().wrapping_sub(self.first_uss_bytes?.cast_signed()))
    }
}

/// Words with an end each; a program that wrote over its own may have one line without.
fn words(cmdline: &[u8]) -> Vec<String> {
    let end = cmdline.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let words = cmdline[..end].split(|byte| *byte == 0);
    words.filter(|_| end > 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

impl<'a> Fields<'a> {
    fn parse(stat: &'a [u8]) -> Option<Self> {
        // The name is in parentheses and may hold some; the last one ends it.
        let begin = stat.iter().position(|byte| *byte == b'(')? + 1;
        let end = stat.iter().rposition(|byte| *byte == b')').filter(|end| *end >= begin)?;
        let mut words = stat.get(end + 2..)?.split(|byte| *byte == b' ');
        let state = *words.next()?.first()?;
        let parent = words.next().and_then(number)? as i32;
        let own = words.nth(9).and_then(number)?;
        let ticks = own.saturating_add(words.next().and_then(number)?);
        let threads = words.nth(4).and_then(number)? as u32;
        let start_ticks = words.nth(1).and_then(number)?;
        let rss_pages = words.nth(1).and_then(number)?;
        let name = &stat[begin..end];
        Some(Self { name, state, parent, ticks, threads, start_ticks, rss_pages })
    }
}

/// What begins with another sign than a digit is none.
fn number(word: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    for byte in word.trim_ascii_end() {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum = sum.checked_mul(10)?.checked_add(digit.into())?;
    }
    (!word.is_empty()).then_some(sum)
}

fn pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pid = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let digits = number(name.as_encoded_bytes())?;
        i32::try_from(digits).ok()
    };
    entries.flatten().filter_map(pid).collect()
}

/// `PID/NAME` in a buffer of the caller's.
fn path<'a>(pid: i32, name: &CStr, buffer: &'a mut [u8; 32]) -> Option<&'a CStr> {
    use std::io::Write;
    let mut rest = &mut buffer[..];
    write!(rest, "{pid}/").and_then(|()| rest.write_all(name.to_bytes_with_nul())).ok()?;
    CStr::from_bytes_until_nul(buffer).ok()
}

/// One read: what does not fit is cut.
fn read_at(proc: &OwnedFd, pid: i32, name: &CStr, buffer: &mut [u8]) -> Option<usize> {
    let mut bytes = [0; 32];
    let path = path(pid, name, &mut bytes)?;
    // SAFETY: the path is a C string; the descriptor is new.
    let file = unsafe {
        let fd = libc::openat(proc.as_raw_fd(), path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }?;
    // SAFETY: as many bytes at most as the buffer has.
    let got = unsafe { libc::read(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(got).ok()
}

/// Of the process's folder: that of its files is root's where it may not be looked into.
fn owner(proc: &OwnedFd, pid: i32) -> Option<u32> {
    let mut bytes = [0; 32];
    let path = path(pid, c"", &mut bytes)?;
    // SAFETY: the record is plain data, for which all zeroes is a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string; the record is ours to write.
    let status = unsafe { libc::fstatat(proc.as_raw_fd(), path.as_ptr(), &raw mut stat, 0) };
    (status == 0).then_some(stat.st_uid)
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf takes a constant and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Names of users by their numbers, as `/etc/passwd` has them; others are told by the number.
#[must_use]
pub fn users() -> BTreeMap<u32, String> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    let mut users = BTreeMap::new();
    for (uid, name) in text.lines().filter_map(user) {
        users.entry(uid).or_insert(name);
    }
    users
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use proptest::prelude::*;

    use super::*;

    const STAT: &[u8] = b"42 (a) (b c) S 7 42 41 0 -1 4194560 1 0 0 0 11 5 3 2 20 0 3 0 777 9000 \
        88 18446744073709551615 1 1 0\n";

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let fields = Fields::parse(STAT).expect("well formed");
        assert_eq!((fields.name, fields.state, fields.parent), (&b"a) (b c"[..], b'S', 7));
        assert_eq!((fields.ticks, fields.threads), (16, 3));
        assert_eq!((fields.start_ticks, fields.rss_pages), (777, 88));
        assert!((0..STAT.len() - 30).all(|cut| Fields::parse(&STAT[..cut.min(60)]).is_none()));
    }

    #[test]
    fn a_busy_child_is_seen_with_its_words_and_its_cpu_time() {
        let child = Command::new("sh").args(["-c", "while :; do :; done", "spin"]).spawn();
        let child = Ended(child.expect("sh"));
        let pid = child.0.id() as i32;
        let mut scanner = Scanner::new().expect("/proc");
        let mut find = || scanner.scan().into_iter().find(|seen| seen.pid == pid).expect("it runs");
        assert_eq!(find().cpu_percent, None, "nothing to subtract");
        let mut now = find();
        for _ in 0..2_000 {
            if now.cpu_percent > Some(0.0) && !now.arguments.is_empty() {
                break;
            }
            clock::sleep(Duration::from_millis(2));
            now = find();
        }
        assert!(now.cpu_percent > Some(0.0), "{now:?}");
        assert_eq!((&*now.name, now.parent), ("sh", std::process::id() as i32));
        assert!(now.rss_bytes > 0 && now.threads == 1);
    }

    #[test]
    fn memory_is_looked_at_where_it_is_shown_and_by_turns() {
        let own = std::process::id() as i32;
        let mut scanner = Scanner::new().expect("/proc");
        let mut seen = scanner.scan();
        scanner.look(&mut seen, &[own], 0);
        let known = |seen: &[Seen]| seen.iter().filter(|seen| seen.memory.is_some()).count();
        let at = seen.iter().find(|seen| seen.pid == own).expect("ourselves");
        assert_eq!((known(&seen), at.growth_bytes), (1, Some(0)));
        assert!(at.memory.is_some_and(|m| m.uss_bytes > 0 && m.uss_bytes <= m.pss_bytes));
        let first = scanner.in_turn(&seen, &[own], 1);
        let second = scanner.in_turn(&seen, &[own], 1);
        assert!(first.len() <= 1 && !first.contains(&own));
        assert!(second != first || first.is_empty() || seen.len() < 4, "{first:?} {second:?}");
    }

    #[test]
    fn who_ended_is_forgotten() {
        let mut child = Ended(Command::new("sleep").arg("60").spawn().expect("sleep"));
        let pid = child.0.id() as i32;
        let mut scanner = Scanner::new().expect("/proc");
        assert!(scanner.scan().iter().any(|seen| seen.pid == pid));
        child.0.kill().and_then(|()| child.0.wait()).expect("ends");
        assert!(!scanner.scan().iter().any(|seen| seen.pid == pid));
        assert!(!scanner.known.contains_key(&pid));
    }

    #[test]
    fn words_end_where_the_program_ends_them() {
        assert_eq!(words(b"perl\0-e\0\0"), ["perl", "-e"]);
        assert_eq!(words(b"nginx: worker\0\0\0"), ["nginx: worker"]);
        assert_eq!(words(b"a\0\0b\0"), ["a", "", "b"]);
        assert!(words(b"").is_empty() && words(b"\0\0").is_empty());
    }

    #[test]
    fn root_has_a_name() {
        assert_eq!(users().get(&0).map(String::as_str), Some("root"));
    }

    proptest! {
        #[test]
        fn no_stat_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..140_usize,
        ) {
            let _ = (Fields::parse(&bytes), words(&bytes), number(&bytes));
            let _ = Fields::parse(&STAT[..cut.min(STAT.len())]);
            let mixed = [&STAT[..cut.min(STAT.len())], &bytes].concat();
            let _ = Fields::parse(&mixed);
        }
    }
}
