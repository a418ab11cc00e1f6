//! Numbers only: histograms, intervals, tests, fits. No I/O, no time, no randomness without a seed.
//!
//! The unit of all inference here is the *block*: one number per block and variant. Nothing in this
//! crate treats single requests as independent samples.

mod distribution;
mod holm;
mod jackknife;
mod latency;
mod limit;
mod modes;
mod mser;
mod paired;
mod rng;
mod sequence;
mod stein;
mod trend;
mod wilcoxon;

pub use distribution::{StudentT, incomplete_beta, ln_gamma};
pub use holm::holm;
pub use jackknife::{QuantileRatio, quantile_ratio, requests_needed};
pub use latency::{Latency, LatencyError};
pub use limit::{Limit, Trial, limit};
pub use modes::{Modes, two_modes};
pub use mser::{Settled, mser5};
pub use paired::{Estimate, Interval, Paired, mean, sd};
pub use rng::Rng;
pub use sequence::confidence_sequence;
pub use stein::{blocks_needed, blocks_needed_at, half_width_after, half_width_at};
pub use trend::{Trend, trend};
pub use wilcoxon::{HodgesLehmann, hodges_lehmann, median_of_sorted};
