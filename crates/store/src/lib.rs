//! Runs on disk. A run is a folder: `manifest.json` (written before the first block),
//! `blocks.jsonl` (one line appended per finished block), `latency/*.hdr` (one HdrHistogram per
//! slice) and `end.json`. Nothing is ever rewritten, so a run that was cut off is a shorter run,
//! not a broken one. Knows nothing of statistics.

mod calendar;
mod error;
mod model;
mod run;

pub use calendar::utc;
pub use error::Error;
pub use model::{
    Answer, Block, Dropped, End, Fact, Flag, Group, LoadFacts, Manifest, SCHEMA, Skipped, Slice,
    Start, Variant,
};
pub use run::{Listed, Made, Run, Writer, earlier, list, root};
