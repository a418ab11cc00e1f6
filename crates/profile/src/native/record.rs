//! What the kernel writes into a ring of `perf_event`: records, decoded. Pure: bytes that make no
//! sense are passed over.

/// A look at a thread that ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub tid: i32,
    /// Innermost first: what the kernel did for the thread; empty where it ran in its program.
    pub kernel: Vec<u64>,
    /// Innermost first: the program's own. All but the first are return addresses, and as good as
    /// frame pointers are.
    pub user: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Sample(Sample),
    /// There was no room for so many.
    Lost(u64),
    /// Code was mapped: another library, or another program altogether.
    Mapped,
}

/// What a sample holds, in this order: `PERF_SAMPLE_IP | TID | TIME | CALLCHAIN`.
pub const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5;

const MMAP: u32 = 1;
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// Of a record's `misc`: where the processor was.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// Values from here on are no addresses but say whose those are that follow.
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;

#[must_use]
pub fn records(mut bytes: &[u8]) -> Vec<Record> {
    let mut found = Vec::new();
    // Type, `misc`, and the size of it all.
    while let Some((kind, misc, size)) = header(bytes) {
        let Some(body) = bytes.get(8..size) else { break };
        let mut words = Words(body);
        found.extend(match kind {
            SAMPLE => sample(&mut words, misc).map(Record::Sample),
            MMAP => Some(Record::Mapped),
            LOST => words.nth(1).map(Record::Lost),
            _ => None,
        });
        bytes = &bytes[size..];
    }
    found
}

fn header(bytes: &[u8]) -> Option<(u32, u16, usize)> {
    let word = Words(bytes).next()?;
    let size = (word >> 48) as usize;
    (size >= 8).then_some((word as u32, (word >> 32) as u16, size))
}

fn sample(words: &mut Words<'_>, misc: u16) -> Option<Sample> {
    let (ip, thread, _at_ns, count) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let mut sample = Sample { tid: (thread >> 32) as i32, ..Sample::default() };
    let is_kernel = misc & MODE == MODE_KERNEL;
    let mut part = None;
    for address in words.take(usize::try_from(count).ok()?) {
        match address {
            CONTEXT_KERNEL => part = Some(true),
            CONTEXT_USER => part = Some(false),
            context if context >= CONTEXT_MAX => part = None,
            address => match part {
                Some(true) => sample.kernel.push(address),
                Some(false) => sample.user.push(address),
                None => {}
            },
        }
    }
    // Where it was is known, whether or not the chain has it.
    let innermost = if is_kernel { &mut sample.kernel } else { &mut sample.user };
    if innermost.first() != Some(&ip) {
        innermost.insert(0, ip);
    }
    Some(sample)
}

/// Numbers of eight bytes.
struct Words<'b>(&'b [u8]);

impl Iterator for Words<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * words.len() as u64;
        let head = u64::from(kind) | u64::from(misc) << 32 | size << 48;
        [&[head], words].concat().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn some() -> Vec<u8> {
        let thread = 7 | 8 << 32;
        let in_program = record(SAMPLE, 2, &[0x10, thread, 5, 3, CONTEXT_USER, 0x10, 0x20]);
        let chain = [CONTEXT_KERNEL, 0xf1, 0xf2, CONTEXT_USER, 0x30];
        let in_kernel = record(SAMPLE, 1, &[&[0xf1, thread, 6, 5], &chain[..]].concat());
        let bare = record(SAMPLE, 1, &[0xf3, thread, 7, 2, CONTEXT_USER, 0x40]);
        let others = [record(LOST, 0, &[1, 12]), record(3, 0, &[0]), record(MMAP, 2, &[0; 5])];
        [in_program, others.concat(), in_kernel, bare].concat()
    }

    #[test]
    fn samples_know_what_is_the_kernels() {
        let sample = |kernel: &[u64], user: &[u64]| {
            let (kernel, user) = (kernel.to_vec(), user.to_vec());
            Record::Sample(Sample { tid: 8, kernel, user })
        };
        let expected = [
            sample(&[], &[0x10, 0x20]),
            Record::Lost(12),
            Record::Mapped,
            sample(&[0xf1, 0xf2], &[0x30]),
            sample(&[0xf3], &[0x40]),
        ];
        assert_eq!(records(&some()), expected);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300),
                                    cut in 0_usize..400) {
            let some = some();
            let cut = &some[..cut.min(some.len())];
            let _ = (records(&bytes), records(&[cut, &bytes].concat()));
            prop_assert!(records(cut).len() <= 5);
        }
    }
}
