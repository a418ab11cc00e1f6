//! What can be wrong with an answer's bytes: one name a fault. Text only; no I/O, no policy.

/// A server broke the protocol in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("the answer does not begin with HTTP/1.0 or HTTP/1.1; is this an HTTP port?")]
    NotHttp,
    #[error("a line of the head ends in a bare line feed")]
    BareLineFeed,
    #[error("the head is longer than 64 KiB")]
    HeadTooLong,
    #[error("the status line or a header field is malformed")]
    BadHead,
    #[error("Content-Length is repeated or is not a plain number")]
    BadLength,
    #[error("both Content-Length and Transfer-Encoding are given")]
    BothLengths,
    #[error("Transfer-Encoding does not end in exactly one chunked, or comes with HTTP/1.0")]
    BadTransferCoding,
    #[error("a chunk's size line or line ending is malformed")]
    BadChunk,
    #[error("trailers or chunk extensions are longer than 64 KiB")]
    TrailersTooLong,
    #[error("the answer is not HTTP/2; does the server speak it on this port?")]
    NotHttp2,
    #[error("an HTTP/2 frame is malformed or out of place")]
    BadFrame,
    #[error("an HTTP/2 header block is malformed or lacks its status")]
    BadHeaderBlock,
    #[error("the body is longer or shorter than its Content-Length")]
    WrongLength,
    #[error("101 Switching Protocols was not asked for")]
    Upgraded,
    #[error("bytes follow the end of the answer")]
    Excess,
    #[error("the connection closed before the answer was complete")]
    Truncated,
}
