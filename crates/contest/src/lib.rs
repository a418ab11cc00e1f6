//! Which of several ways is faster: timed batches in, ratios with intervals out. Pure: who runs the
//! code and whose clock it is timed by is not known here.
//!
//! The unit of inference is the process. The same code in two places of one process differs by a
//! per cent or more for where it came to lie (Mytkowicz et al. 2009), and no number of batches
//! tells that from a real difference; each process lays everything out anew.

mod growth;
mod heat;
mod sizing;
mod standing;

pub use growth::growth;
pub use heat::{Heat, Turn};
pub use sizing::Sizing;
pub use standing::{CONFIDENCE, CONFIDENCE_OF_ALL, LEAST, Pace, Ratio, Standing};
