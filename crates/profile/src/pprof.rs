//! A profile as pprof reads it: gzipped protocol buffers of the schema `profile.proto`
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>), its fields by their numbers
//! there. Each stack has its samples and their nanoseconds. Pure.

use std::{
    collections::HashMap,
    io::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flate2::{Compression, write::GzEncoder};
use prost::Message;

use crate::profile::{Clock, Frame, Profile};

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
}

/// Numbers of strings.
#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// `name` is the program's, `ended` when it was watched last.
#[must_use]
pub fn pprof(profile: &Profile, name: &str, ended: SystemTime) -> Vec<u8> {
    let file = Writer::new().file(profile, name, ended);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&file.encode_to_vec()).expect("writing to memory cannot fail");
    packed.finish().expect("writing to memory cannot fail")
}

/// Numbers what is there more than once. Those of strings begin with 0, the others with 1.
struct Writer<'p> {
    strings: HashMap<&'p str, i64>,
    functions: HashMap<(&'p str, &'p str), u64>,
    locations: HashMap<&'p Frame, u64>,
    file: File,
}

impl<'p> Writer<'p> {
    /// The first string is to be the empty one.
    fn new() -> Self {
        let file = File { string_table: vec![String::new()], ..File::default() };
        Self {
            strings: [("", 0)].into(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            file,
        }
    }

    fn file(mut self, profile: &'p Profile, name: &'p str, ended: SystemTime) -> File {
        let each_ns = profile.taken.each_s() * 1e9;
        for (stack, count) in profile.stacks() {
            let location_id = stack.iter().rev().map(|frame| self.location(frame)).collect();
            let value = vec![count as i64, (count as f64 * each_ns).round() as i64];
            self.file.sample.push(Sample { location_id, value });
        }
        let clock = match profile.taken.clock() {
            Clock::Wall => "wall",
            Clock::Cpu => "cpu",
        };
        let time = self.value_type(clock, "nanoseconds");
        self.file.sample_type = vec![self.value_type("samples", "count"), time.clone()];
        self.file.period_type = Some(time);
        self.file.period = each_ns.round() as i64;
        let began = ended.checked_sub(profile.taken.wall).unwrap_or(UNIX_EPOCH);
        self.file.time_nanos = nanoseconds(began.duration_since(UNIX_EPOCH).unwrap_or_default());
        self.file.duration_nanos = nanoseconds(profile.taken.wall);
        let name = self.string(name);
        self.file.comment = vec![name];
        self.file
    }

    fn value_type(&mut self, what: &'static str, unit: &'static str) -> ValueType {
        ValueType { r#type: self.string(what), unit: self.string(unit) }
    }

    fn location(&mut self, frame: &'p Frame) -> u64 {
        let next = self.locations.len() as u64 + 1;
        let id = *self.locations.entry(frame).or_insert(next);
        if id == next {
            let line = Line { function_id: self.function(frame), line: i64::from(frame.line) };
            self.file.location.push(Location { id, line: vec![line] });
        }
        id
    }

    fn function(&mut self, frame: &'p Frame) -> u64 {
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((&frame.name, &frame.file)).or_insert(next);
        if id == next {
            let (name, filename) = (self.string(&frame.name), self.string(&frame.file));
            self.file.function.push(Function { id, name, system_name: name, filename });
        }
        id
    }

    fn string(&mut self, text: &'p str) -> i64 {
        let next = self.strings.len() as i64;
        let number = *self.strings.entry(text).or_insert(next);
        if number == next {
            self.file.string_table.push(text.to_owned());
        }
        number
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::profile::made::at_two_lines;

    fn read(bytes: &[u8]) -> File {
        let mut plain = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
        File::decode(&*plain).expect("a message")
    }

    #[test]
    fn stacks_begin_with_the_innermost_frame_and_values_are_samples_and_time() {
        let profile = at_two_lines();
        let ended = UNIX_EPOCH + Duration::from_secs(1_000);
        let file = read(&pprof(&profile, "a.pl x", ended));
        let text = |number: i64| &*file.string_table[number as usize];
        assert_eq!(text(0), "");
        let types: Vec<_> =
            file.sample_type.iter().map(|t| (text(t.r#type), text(t.unit))).collect();
        assert_eq!(types, [("samples", "count"), ("wall", "nanoseconds")]);
        assert_eq!(file.sample[0].value, [3, 1_500_000_000]);
        assert_eq!((file.location.len(), file.function.len()), (3, 2), "a sub is one function");
        let of = |id: &u64| {
            let location = file.location.iter().find(|location| location.id == *id).expect("one");
            let line = &location.line[0];
            let function = file.function.iter().find(|f| f.id == line.function_id).expect("one");
            (text(function.name), text(function.filename), line.line)
        };
        let stack: Vec<_> = file.sample[1].location_id.iter().map(of).collect();
        assert_eq!(stack, [("A::b", "a.pl", 5), ("main", "a.pl", 9)]);
        assert_eq!((file.time_nanos, file.duration_nanos), (998_000_000_000, 2_000_000_000));
        assert_eq!((file.period, text(file.comment[0])), (500_000_000, "a.pl x"));
    }
}
