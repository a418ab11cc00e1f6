//! Numbers only: histograms, intervals, tests, fits. No I/O, no time, no randomness without a seed.

mod latency;

pub use latency::Latency;
