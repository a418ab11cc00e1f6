//! Words for whoever looks on: the only place that writes to the two standard streams. What cannot
//! be said on standard error is not said and changes nothing: no run ends for want of a reader.
//! Results on standard output are another thing: who asked for them must know.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// The caller closed standard output (`>&-`).
static NO_STDOUT: AtomicBool = AtomicBool::new(false);

/// Runs before `main`: on its way there the standard library opens `/dev/null` in place of what is
/// closed, and from then on every word would seem to arrive.
// SAFETY: the loader calls every address in this section as a C function, once, before `main`;
// this is one, and it neither needs the library's runtime nor unwinds.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look_at_stdout;

extern "C" fn look_at_stdout() {
    // SAFETY: asks for a descriptor's flags and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    NO_STDOUT.store(flags == -1, Ordering::Relaxed);
}

/// A line of news or an error, on standard error. Others' words are in it (a server's last ones, a
/// file's name): they command no terminal.
pub fn line(words: impl Display) {
    part(format!("{}\n", drom_report::format::plain_lines(&words.to_string())));
}

/// The same without the line's end.
pub fn part(words: impl Display) {
    let mut stderr = io::stderr().lock();
    // Closed, full, or read by nobody any more.
    let words = in_locale(&words.to_string());
    let _ = stderr.write_all(words.as_bytes()).and_then(|()| stderr.flush());
}

/// A result for people, on standard output.
pub fn words(text: &str) -> io::Result<()> {
    result(&in_locale(text))
}

fn in_locale(text: &str) -> String {
    if has_utf8() { text.to_owned() } else { drom_report::format::ascii(text) }
}

/// Whether the locale that letters are shown in is one of UTF-8.
pub fn has_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A result, on standard output. A reader that went away (`| head`) is no error.
pub fn result(text: &str) -> io::Result<()> {
    bytes(text.as_bytes())
}

/// A part of a result that goes on and on: whether anybody still reads it.
pub fn is_heard(text: &str) -> io::Result<bool> {
    let mut is_heard = true;
    result_by(|| {
        let done = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
        is_heard = !matches!(&done, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        done
    })?;
    Ok(is_heard)
}

/// The same of one that need not be text.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    result_by(|| io::stdout().write_all(bytes))
}

/// The same of one that others' code prints.
pub fn result_by(print: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if NO_STDOUT.load(Ordering::Relaxed) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    match print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
