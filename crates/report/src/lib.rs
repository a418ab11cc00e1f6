//! Text, JSON, CSV, SVG and HTML of a result. Knows nothing of how it was measured.

pub mod catalogue;
mod csv;
mod findings;
pub mod format;
mod html;
mod json;
pub mod load_page;
mod plots;
pub mod profile_page;
pub mod runs;
mod svg;
mod text;

pub use csv::{csv, quoted};
pub use findings::{
    BlockPoint, CheckCount, Client, CurvePoint, Estimate, Findings, GroupFinding, NotEvaluated,
    Response, Role, Row, Verdict,
};
pub use html::html;
pub use json::{SCHEMA, json, pretty};
pub use text::{Style, broken, fold, markdown, text};
