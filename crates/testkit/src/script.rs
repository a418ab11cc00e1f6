//! What a server is to do, as data: a [`Turn`] for each request, a [`Manner`] for each connection,
//! and what befalls the server as a whole. Pure; the same seed and number give the same turn.

use std::time::Duration;

use drom_stats::Rng;

/// All of it.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    /// Never empty.
    pub turns: Vec<Turn>,
    pub order: Order,
    /// Of the n-th connection, round and round; without any all are served.
    pub manners: Vec<Manner>,
    /// Since the start: nothing is accepted. The kernel still completes connections.
    pub deaf: Vec<Window>,
    /// Since the first request: the server does nothing at all, as if it were stopped.
    pub freezes: Vec<Window>,
    /// At most so many answers a second begin, first come first served: a queue with one server and
    /// constant service (M/D/1 when arrivals are Poisson).
    pub capacity_rps: Option<f64>,
    /// Requests that a client has under way on a connection at once: so many after an answer are
    /// no sign yet that it was read.
    pub depth: usize,
    /// Length of the accept queue.
    pub backlog: u32,
    /// Never sleeps: a request is read within microseconds. Costs a core.
    pub spins: bool,
}

/// From when until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Duration,
    pub until: Duration,
}

/// Which turn the n-th request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Round and round.
    Cycle,
    /// Each once, the last for ever.
    Once,
    /// Any, as likely as any other.
    Random,
}

/// What a connection meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Serve,
    /// Closed when it is accepted; what still comes is read.
    Close,
    /// Reset when it is accepted.
    Reset,
}

/// What happens to one request.
#[derive(Clone, Debug)]
pub struct Turn {
    /// From the request's last byte to the answer's first.
    pub delay: Delay,
    pub status: u16,
    pub body_bytes: usize,
    pub form: Form,
    /// So many 1xx answers come first, at once with the answer.
    pub interim: u32,
    /// So many bytes at a time, and the pause between two of them.
    pub pieces: Option<(usize, Duration)>,
    /// The answer begins when the head of the request is there.
    pub early: bool,
    pub fate: Fate,
    pub then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    Constant(Duration),
    Exponential { mean: Duration },
    TwoModes { usual: Duration, slow: Duration, slow_share: f64 },
}

/// How the answer is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Length,
    /// Chunks of so many bytes.
    Chunked(usize),
    /// HTTP/1.0 without a length: the close ends it.
    UntilClose,
    /// HTTP/1.0 with a length and `Connection: keep-alive`.
    OldKeepAlive,
    /// A head that is said to have a body and has none: 204, 304.
    Bodiless,
}

/// How far the answer comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Whole,
    /// Another body of the same length.
    OtherBody,
    /// After so many bytes of the answer, or all but one, the connection is closed.
    CutClose(usize),
    CutReset(usize),
    /// Nothing more comes after so many bytes of the answer.
    Stall(usize),
    /// After so many bytes of the request, or all of it, the connection is closed.
    RequestCutClose(usize),
    RequestCutReset(usize),
    Flawed(Flaw),
    /// These bytes, whatever they are. For the server they are a whole answer.
    Raw(Vec<u8>),
}

/// How an answer breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    NotHttp,
    BareLineFeed,
    HeadTooLong,
    BadHead,
    BadLength,
    BothLengths,
    BadTransferCoding,
    BadChunk,
    TrailersTooLong,
    Upgraded,
    Excess,
}

/// What happens after a whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Keep,
    /// `Connection: close`, and the close.
    Announced,
    /// The close of a connection that has been idle so long, not announced.
    Silent(Duration),
    /// A reset, not announced.
    Reset,
}

impl Flaw {
    pub const ALL: [Self; 11] = [
        Self::NotHttp,
        Self::BareLineFeed,
        Self::HeadTooLong,
        Self::BadHead,
        Self::BadLength,
        Self::BothLengths,
        Self::BadTransferCoding,
        Self::BadChunk,
        Self::TrailersTooLong,
        Self::Upgraded,
        Self::Excess,
    ];

    /// Whether a client may stop reading before the end of it.
    #[must_use]
    pub fn is_long(self) -> bool {
        matches!(self, Self::HeadTooLong | Self::TrailersTooLong)
    }
}

impl Default for Turn {
    /// Two bytes at once, over a connection that is kept.
    fn default() -> Self {
        Self {
            delay: Delay::Constant(Duration::ZERO),
            status: 200,
            body_bytes: 2,
            form: Form::Length,
            interim: 0,
            pieces: None,
            early: false,
            fate: Fate::Whole,
            then: Then::Keep,
        }
    }
}

impl Turn {
    #[must_use]
    pub fn after(delay: Delay) -> Self {
        Self { delay, ..Self::default() }
    }

    #[must_use]
    pub fn with(fate: Fate) -> Self {
        Self { fate, ..Self::default() }
    }
}

impl Script {
    /// These turns, round and round.
    #[must_use]
    pub fn cycle(turns: Vec<Turn>) -> Self {
        Self {
            seed: 0,
            turns,
            order: Order::Cycle,
            manners: Vec::new(),
            deaf: Vec::new(),
            freezes: Vec::new(),
            capacity_rps: None,
            depth: 1,
            backlog: 4_096,
            spins: false,
        }
    }

    #[must_use]
    pub fn always(turn: Turn) -> Self {
        Self::cycle(vec![turn])
    }

    /// One queue and one server: so many answers a second, first come first served.
    #[must_use]
    pub fn limited(capacity_rps: f64) -> Self {
        Self { capacity_rps: Some(capacity_rps), ..Self::always(Turn::default()) }
    }

    /// The turn of request `number`, from 0, and its delay.
    #[must_use]
    pub fn turn(&self, number: u64) -> (&Turn, Duration) {
        let mut rng = Rng::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let last = self.turns.len() - 1;
        let at = match self.order {
            Order::Cycle => (number % self.turns.len() as u64) as usize,
            Order::Once => usize::try_from(number).map_or(last, |number| number.min(last)),
            Order::Random => rng.below(self.turns.len()),
        };
        (&self.turns[at], self.turns[at].delay.draw(&mut rng))
    }

    #[must_use]
    pub fn manner(&self, number: u64) -> Manner {
        let length = self.manners.len().max(1) as u64;
        self.manners.get((number % length) as usize).copied().unwrap_or(Manner::Serve)
    }
}

impl Delay {
    pub const NONE: Self = Self::Constant(Duration::ZERO);

    fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Self::Constant(delay) => delay,
            Self::Exponential { mean } => mean.mul_f64(-(1.0 - rng.unit()).ln()),
            Self::TwoModes { usual, slow, slow_share } => {
                if rng.unit() < slow_share {
                    slow
                } else {
                    usual
                }
            }
        }
    }
}

impl Window {
    #[must_use]
    pub fn new(from_ms: u64, until_ms: u64) -> Self {
        Self { from: Duration::from_millis(from_ms), until: Duration::from_millis(until_ms) }
    }

    /// When it ends, if `age` lies in it.
    #[must_use]
    pub fn end_at(&self, age: Duration) -> Option<Duration> {
        (self.from..self.until).contains(&age).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_depends_on_seed_and_number_alone() {
        let mean = Duration::from_millis(2);
        let turns = vec![Turn::after(Delay::Exponential { mean }), Turn::default()];
        let script = Script { order: Order::Random, seed: 7, ..Script::cycle(turns) };
        let delay = |seed, number| Script { seed, ..script.clone() }.turn(number).1;
        assert!((0..100).all(|number| delay(7, number) == delay(7, number)));
        assert!((0..100).any(|number| delay(7, number) != delay(8, number)));
    }

    #[test]
    fn delays_are_distributed_as_said() {
        let of = |delay| {
            let script = Script::always(Turn::after(delay));
            let mut delays: Vec<f64> =
                (0..20_000).map(|number| script.turn(number).1.as_secs_f64() * 1e3).collect();
            delays.sort_by(f64::total_cmp);
            delays
        };
        let (ms, mean) = (Duration::from_millis, Duration::from_millis(2));
        let delays = of(Delay::Exponential { mean });
        assert!((delays[10_000] - 2.0 * std::f64::consts::LN_2).abs() < 0.05, "the median");
        assert!((delays[19_800] - 2.0 * 100_f64.ln()).abs() < 0.5, "the 99th percentile");
        let delays = of(Delay::TwoModes { usual: ms(2), slow: ms(20), slow_share: 0.1 });
        let slow = delays.iter().filter(|ms| **ms > 10.0).count();
        assert!((1_800..2_200).contains(&slow), "{slow}");
    }

    #[test]
    fn orders_and_manners_come_as_said() {
        let bodies = |order| {
            let turn = |body_bytes| Turn { body_bytes, ..Turn::default() };
            let script = Script { order, ..Script::cycle(vec![turn(1), turn(2), turn(3)]) };
            (0..5).map(|number| script.turn(number).0.body_bytes).collect::<Vec<_>>()
        };
        assert_eq!(bodies(Order::Cycle), [1, 2, 3, 1, 2]);
        assert_eq!(bodies(Order::Once), [1, 2, 3, 3, 3]);
        let script = Script::always(Turn::default());
        assert_eq!(script.manner(5), Manner::Serve);
        let script = Script { manners: vec![Manner::Serve, Manner::Close], ..script };
        assert_eq!(script.manner(3), Manner::Close);
    }
}
