//! The server side of HTTP/1 without sockets: bytes in, heads and bodies out. `head` reads a
//! request head, `chunked` a chunked body, `response` writes a response head. Refuses whatever two
//! parsers could read differently: nothing ambiguous is guessed at, the connection ends instead.

pub mod chunked;
pub mod head;
pub mod response;

pub use chunked::{Chunk, ChunkedDecoder, ChunkedLimits};
pub use head::{Body, Head, HeadScratch, Limits, Parsed, Target, Version, parse_head};
pub use response::{DateCache, Framing, ResponseHead, status_text};
