//! Text, JSON, CSV, SVG and HTML of a result. Knows nothing of how it was measured.

pub mod catalogue;
mod findings;
pub mod format;

pub use findings::{
    BlockPoint, CheckCount, CurvePoint, Estimate, Findings, GroupFinding, Response, Role, Row,
    Verdict,
};
