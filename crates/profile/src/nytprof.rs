//! `nytprof.out`, the file of Devel::NYTProf 5 and 6 (format 5), as a profile: calls by the way
//! that they came with each sub's own wall-clock time, and lines with their runs. Pure.

use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Read},
    sync::Arc,
};

use flate2::read::ZlibDecoder;

use crate::{
    calls::{Calls, Way},
    lines::Lines,
    profile::Profile,
    stored::NoProfile,
};

pub const FIRST_WORDS: &[u8] = b"NYTProf ";
const MAJOR: &str = "5";
/// Longer texts are not taken for texts.
const TEXT_MAX: u32 = 1 << 20;
/// Deeper calls are told at this depth.
const DEPTH_MAX: usize = 200;

#[derive(Default)]
struct Reader {
    program: Option<String>,
    ticks_per_s: f64,
    /// By number.
    files: HashMap<u32, Arc<str>>,
    names: HashMap<String, Arc<str>>,
    /// Runs and ticks by file and line.
    lines: HashMap<(u32, u32), (u64, f64)>,
    /// It was written to its end.
    has_end: bool,
    /// The next statement was counted before.
    is_discounted: bool,
    /// Subs that have returned, by their depth, until the one that called them does.
    returned: Vec<Below>,
    /// File and first line of a sub.
    places: Vec<(Arc<str>, u32, u32)>,
    /// Caller, sub, calls and seconds; the file tells them at its end.
    callers: Vec<(Arc<str>, Arc<str>, u32, f64)>,
}

/// What a sub called.
type Below = HashMap<Arc<str>, Sub>;

#[derive(Default)]
struct Sub {
    calls: u64,
    own: f64,
    below: Below,
}

/// The profile, and the name of the program.
///
/// # Errors
/// What it is not. A file that was cut off is read as far as it goes, and says so.
pub fn read(bytes: &[u8]) -> Result<(Profile, Option<String>), NoProfile> {
    let mut source = Source { input: Box::new(bytes) };
    let first = source.line().unwrap_or_default();
    let version = first.split_whitespace().nth(1).unwrap_or("not said");
    if version != MAJOR {
        return Err(NoProfile::NytProf(version.to_owned()));
    }
    let mut reader = Reader { ticks_per_s: 1e7, ..Reader::default() };
    let is_cut = reader.records(&mut source).is_err() || !reader.has_end;
    let program = reader.program.take();
    Ok((reader.profile(is_cut), program))
}

impl Reader {
    fn records(&mut self, source: &mut Source<'_>) -> io::Result<()> {
        while let Some(tag) = source.tag()? {
            self.record(tag, source)?;
        }
        Ok(())
    }

    fn record(&mut self, tag: u8, source: &mut Source<'_>) -> io::Result<()> {
        match tag {
            b':' => self.attribute(&source.line()?),
            b'!' | b'#' => drop(source.line()?),
            b'z' => source.inflate(),
            b'+' | b'*' => {
                let (ticks, file, line) = (source.number()?, source.number()?, source.number()?);
                if tag == b'*' {
                    let [_block, _sub] = [source.number()?, source.number()?];
                }
                self.statement(ticks, file, line);
            }
            b'-' => self.is_discounted = true,
            b'@' => {
                let file = source.number()?;
                source.numbers::<5>()?;
                let name = source.text()?;
                self.files.insert(file, name.into());
            }
            b'S' => {
                source.numbers::<2>()?;
                source.text()?;
            }
            b's' => {
                let file = source.number()?;
                let name = source.text()?;
                let [first, _last] = source.numbers()?;
                let name = self.name(name);
                self.places.push((name, file, first));
            }
            b'c' => self.caller(source)?,
            b'>' => drop(source.numbers::<2>()?),
            b'<' => {
                let depth = source.number()?;
                let [_all, own] = [source.real()?, source.real()?];
                let name = source.text()?;
                self.returned(depth as usize, own, name);
            }
            b'P' => {
                source.numbers::<2>()?;
                source.real()?;
            }
            b'p' => {
                source.number()?;
                source.real()?;
                self.has_end = true;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    fn attribute(&mut self, line: &str) {
        match line.trim_end().split_once('=') {
            Some(("application", program)) => self.program = Some(program.to_owned()),
            Some(("ticks_per_sec", ticks)) => {
                let ticks = ticks.parse().ok().filter(|ticks: &f64| ticks.is_normal());
                self.ticks_per_s = ticks.unwrap_or(self.ticks_per_s).abs();
            }
            _ => {}
        }
    }

    fn statement(&mut self, ticks: u32, file: u32, line: u32) {
        let (runs, all) = self.lines.entry((file, line)).or_default();
        *runs += u64::from(!std::mem::take(&mut self.is_discounted));
        // The clock of a CPU may have gone back.
        *all += f64::from(ticks.cast_signed());
    }

    fn caller(&mut self, source: &mut Source<'_>) -> io::Result<()> {
        source.numbers::<2>()?;
        let caller = source.text()?;
        let calls = source.number()?;
        let [_all, own, _again] = [source.real()?, source.real()?, source.real()?];
        source.number()?;
        let called = source.text()?;
        let (caller, called) = (self.name(caller), self.name(called));
        self.callers.push((caller, called, calls, own));
        Ok(())
    }

    /// What was deeper and has returned was called by it.
    fn returned(&mut self, depth: usize, own: f64, name: String) {
        let depth = depth.min(DEPTH_MAX);
        let mut below = Below::new();
        while self.returned.len() > depth + 1 {
            put(&mut below, self.returned.pop().unwrap_or_default());
        }
        self.returned.resize_with(depth + 1, Below::new);
        let name = self.name(name);
        let sub = Sub { calls: 1, own, below };
        put(&mut self.returned[depth], Below::from([(name, sub)]));
    }

    fn name(&mut self, name: String) -> Arc<str> {
        Arc::clone(self.names.entry(name).or_insert_with_key(|name| name.as_str().into()))
    }

    fn profile(mut self, is_cut: bool) -> Profile {
        let mut calls = Calls::default();
        let mut all = Below::new();
        self.returned.drain(..).for_each(|below| put(&mut all, below));
        match all.is_empty() {
            true => self.pairs(&mut calls),
            false => tell(&mut calls, Way::MAIN, all),
        }
        for (name, file, line) in std::mem::take(&mut self.places) {
            let file = self.files.get(&file).cloned().unwrap_or_default();
            calls.place(name, file, line);
        }
        let (mut lines, mut statements) = (Lines::default(), 0);
        let unit_ns = 1e9 / self.ticks_per_s;
        for ((file, line), (runs, ticks)) in &self.lines {
            let file = self.files.get(file).cloned().unwrap_or_default();
            let share = lines.at(&file, *line);
            share.runs = Some(*runs);
            share.own = (ticks.max(0.0) * unit_ns).min(1e15).round() as u64;
            share.total = share.own;
            statements += runs;
        }
        calls.complete(self.lines.values().map(|(_, ticks)| ticks).sum());
        let mut profile = calls.profile(unit_ns, statements, is_cut);
        profile.set_lines(lines);
        profile
    }

    /// Where calls were only counted: of each the caller is known, and not who called that.
    fn pairs(&mut self, calls: &mut Calls) {
        for (caller, called, count, own_s) in std::mem::take(&mut self.callers) {
            if count > 0 {
                let from = match &*caller {
                    "" | "main::RUNTIME" => Way::MAIN,
                    _ => calls.way(Way::MAIN, &caller),
                };
                let way = calls.way(from, &called);
                calls.counted(way, count.into());
                calls.took(way, own_s * self.ticks_per_s);
            }
        }
    }
}

fn put(into: &mut Below, more: Below) {
    for (name, more) in more {
        let sub = into.entry(name).or_default();
        sub.calls += more.calls;
        sub.own += more.own;
        match sub.below.is_empty() {
            true => sub.below = more.below,
            false => put(&mut sub.below, more.below),
        }
    }
}

fn tell(calls: &mut Calls, caller: Way, below: Below) {
    let mut below: Vec<_> = below.into_iter().collect();
    below.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    for (name, sub) in below {
        let way = calls.way(caller, &name);
        calls.counted(way, sub.calls);
        calls.took(way, sub.own);
        tell(calls, way, sub.below);
    }
}

/// The bytes of the file; from one of them on they are compressed.
struct Source<'b> {
    input: Box<dyn BufRead + 'b>,
}

impl Source<'_> {
    fn inflate(&mut self) {
        let input = std::mem::replace(&mut self.input, Box::new(io::empty()));
        self.input = Box::new(BufReader::new(ZlibDecoder::new(input)));
    }

    fn tag(&mut self) -> io::Result<Option<u8>> {
        let mut tag = [0];
        match self.input.read(&mut tag)? {
            0 => Ok(None),
            _ => Ok(Some(tag[0])),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.input.by_ref().take(u64::from(TEXT_MAX)).read_until(b'\n', &mut line)?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    fn byte(&mut self) -> io::Result<u32> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(u32::from(byte[0]))
    }

    /// One to five bytes: the first one's ones say how many follow.
    fn number(&mut self) -> io::Result<u32> {
        let first = self.byte()?;
        let (more, mut number) = match first {
            0..0x80 => (0, first),
            0x80..0xc0 => (1, first & 0x7f),
            0xc0..0xe0 => (2, first & 0x1f),
            0xe0..0xff => (3, first & 0xf),
            _ => (4, 0),
        };
        for _ in 0..more {
            number = number << 8 | self.byte()?;
        }
        Ok(number)
    }

    fn numbers<const N: usize>(&mut self) -> io::Result<[u32; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Ok(numbers)
    }

    /// As the machine that wrote it has them: this one's kind.
    fn real(&mut self) -> io::Result<f64> {
        let mut bytes = [0; 8];
        self.input.read_exact(&mut bytes)?;
        let real = f64::from_le_bytes(bytes);
        if real.is_finite() { Ok(real) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Its tag says whether it is UTF-8; what is not is told as if it were.
    fn text(&mut self) -> io::Result<String> {
        let (tag, length) = (self.byte()?, self.number()?);
        if ![u32::from(b'\''), u32::from(b'"')].contains(&tag) || length > TEXT_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length as usize];
        self.input.read_exact(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
