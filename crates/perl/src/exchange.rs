//! What Perl may ask of a request while it runs. The server implements [`Exchange`]; the names of the
//! fields come from the catalogue in `shim/methods.def`.

use crate::Table;

include!(concat!(env!("OUT_DIR"), "/fields.rs"));

/// What a handler may ask the server to do later or beside the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Answer with another local path once the handler returned.
    Redirect,
    /// `STATUS text-or-url`: what to answer instead of the standard page.
    CustomResponse,
    /// Replace this worker after the request.
    Retire,
    /// The script writes the head of the response itself.
    AssBackwards,
    /// Compile a script for a Registry at start: `class\0file\0uri`.
    Preload,
    /// No more searching for CGI headers in the output.
    SendHead,
    /// This is the child of a script's `fork`: let go of every socket.
    Forked,
}

/// One request and its answer, as Perl sees them. Errors are errno values.
pub trait Exchange {
    fn text(&mut self, field: Text) -> Option<&[u8]>;
    fn set_text(&mut self, field: Text, value: Option<&[u8]>);
    fn number(&mut self, field: Number) -> i64;
    fn set_number(&mut self, field: Number, value: i64);
    fn table(&mut self, kind: TableKind) -> &mut Table;
    /// The environment of a script, complete.
    fn environment(&mut self) -> &Table;
    fn print(&mut self, bytes: &[u8]) -> Result<(), i32>;
    fn flush(&mut self) -> Result<(), i32>;
    /// Bytes of the request's body; 0 at its end.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, i32>;
    /// `level` as in syslog: 3 error, 4 warning, 6 info, 7 debug.
    fn log(&mut self, level: i32, text: &[u8]);
    /// Sends `count` bytes (all when negative) of a file from `offset`.
    fn send_file(&mut self, path: &[u8], offset: i64, count: i64) -> Result<(), i32>;
    fn command(&mut self, what: Command, text: &[u8]);
}
