//! Experiments: plan, blocks, schedule, verdicts.
//!
//! A [`Plan`] is resolved, [`run`] measures it block by block against a [`World`], [`analyse`]
//! judges what was stored. The schedule never sees a socket and the judgement never sees a clock.

mod analyse;
mod answers;
pub mod checks;
mod error;
mod failures;
mod here;
mod place;
mod plan;
mod preview;
mod real;
mod schedule;
mod spelling;
mod verdict;
mod warmup;
mod world;

pub use analyse::{SoFar, analyse, judge, so_far};
pub use error::Error;
pub use plan::{
    BLOCKS_MIN, Blocks, Contestant, Group, Launch, LoadSettings, Mode, Placement, Plan, Request,
};
pub use preview::{GroupPreview, Preview, preview};
pub use real::RealWorld;
pub use schedule::{Progress, Sink, run};
pub use world::{Ceiling, Clock, Load, Machine, NotReady, Order, Reply, ServerId, Servers, World};
