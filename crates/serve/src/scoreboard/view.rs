//! The scoreboard seen from another process: a [`Window`] is opened on a master and read again and
//! again. It reads a copy and maps nothing, so that nothing here can be written, nor go away while
//! it is looked at. What another version laid out is refused, not guessed.

use std::{
    fmt, fs, io,
    mem::offset_of,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    path::PathBuf,
};

use crate::sys;

use super::{Address, CgiSlot, Header, MAGIC, NAME, Running, Slot, State, Text, VERSION};

/// More than any server has; a number beyond it is no board's.
const SLOTS_MAX: usize = 1 << 16;

/// An open door to the scoreboard of one master.
#[derive(Debug)]
pub struct Window {
    file: fs::File,
}

/// The board at one moment, or nearly: it is read while it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Of the monotonic clock.
    pub started_ns: u64,
    pub workers: Vec<Worker>,
    /// Processes of CGI scripts that run.
    pub cgi: Vec<i32>,
}

/// A worker's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub slot: usize,
    pub pid: i32,
    pub state: State,
    pub generation: u32,
    pub is_primary: bool,
    pub connections: u32,
    /// Answers of every kind, and those that Perl gave.
    pub answers: u64,
    pub perl_requests: u64,
    pub answered_bytes: u64,
    /// Its private memory when it was new.
    pub new_uss_bytes: Option<u64>,
    pub running: Option<Run>,
}

/// The request that Perl runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Of the monotonic clock.
    pub since_ns: u64,
    /// Method, address and version as the client sent them.
    pub request: String,
    pub client: SocketAddr,
}

/// Why a board is not shown.
#[derive(Debug, thiserror::Error)]
pub enum NoView {
    #[error("the scoreboard of process {pid} cannot be read: {source}; be its user or root")]
    Unreadable { pid: i32, source: io::Error },
    #[error(
        "another version of Drom keeps the scoreboard of process {pid} (layout {found}, here \
         {VERSION})"
    )]
    OtherVersion { pid: i32, found: u32 },
    #[error("what process {pid} calls its scoreboard is none")]
    NoBoard { pid: i32 },
}

impl Window {
    /// `None`: that process is no master of a Drom server.
    ///
    /// # Errors
    /// That it may not be looked into.
    pub fn open(pid: i32) -> Result<Option<Self>, NoView> {
        let unreadable = |source| NoView::Unreadable { pid, source };
        let Some(path) = board_of(pid).map_err(unreadable)? else { return Ok(None) };
        // What only has the name may be something that would be waited for.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        match fs::File::options().read(true).custom_flags(flags).open(path) {
            Ok(file) => Ok(Some(Self { file })),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// # Errors
    /// That it is no board that can be understood.
    pub fn look(&self, pid: i32) -> Result<View, NoView> {
        let read = |length: usize| {
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, 0).map(|()| bytes)
        };
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::UnexpectedEof => NoView::NoBoard { pid },
            _ => NoView::Unreadable { pid, source },
        };
        let header = read(size_of::<Header>()).map_err(unreadable)?;
        let layout = Layout::of(&header, pid)?;
        let board = read(layout.length()).map_err(unreadable)?;
        Ok(layout.view(&board))
    }
}

/// The master alone has its board among its descriptors to write to; who looks on has it to read.
fn board_of(pid: i32) -> io::Result<Option<PathBuf>> {
    let mut files = match sys::memory_files(pid, &NAME.to_string_lossy()) {
        Err(error) if is_gone(&error) => return Ok(None),
        files => files?,
    };
    let may_write = |link: fs::Metadata| link.permissions().mode() & 0o200 != 0;
    Ok(files.find(|path| fs::symlink_metadata(path).is_ok_and(may_write)))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// What of the header is needed to read on.
struct Layout {
    slots: usize,
    started_ns: u64,
}

impl Layout {
    fn of(header: &[u8], pid: i32) -> Result<Self, NoView> {
        let number = |at| u32_at(header, at) as usize;
        if !header.starts_with(&MAGIC) {
            return Err(NoView::NoBoard { pid });
        }
        let found = u32_at(header, offset_of!(Header, version));
        if found != VERSION {
            return Err(NoView::OtherVersion { pid, found });
        }
        let slots = number(offset_of!(Header, slots));
        let own = Header::of(slots.min(SLOTS_MAX), 0);
        let is_as_here = slots <= SLOTS_MAX
            && number(offset_of!(Header, slot_bytes)) == size_of::<Slot>()
            && number(offset_of!(Header, cgi_bytes)) == size_of::<CgiSlot>()
            && number(offset_of!(Header, slots_at)) == own.slots_at as usize
            && number(offset_of!(Header, cgi_at)) == own.cgi_at as usize;
        if !is_as_here {
            return Err(NoView::NoBoard { pid });
        }
        Ok(Self { slots, started_ns: u64_at(header, offset_of!(Header, started_ns)) })
    }

    fn length(&self) -> usize {
        size_of::<Header>() + self.slots * (size_of::<Slot>() + size_of::<CgiSlot>())
    }

    /// Of a board of this length.
    fn view(&self, board: &[u8]) -> View {
        let (slots, cgi) = board[size_of::<Header>()..].split_at(self.slots * size_of::<Slot>());
        let lines = slots.chunks_exact(size_of::<Slot>()).enumerate();
        let jobs = cgi.chunks_exact(size_of::<CgiSlot>());
        let child = |line: &[u8]| {
            let is_taken = u32_at(line, offset_of!(CgiSlot, owner)) != 0;
            let pid = u64_at(line, offset_of!(CgiSlot, job)) as u32 & !super::CONDEMNED;
            i32::try_from(pid).ok().filter(|pid| is_taken && *pid > 0)
        };
        View {
            started_ns: self.started_ns,
            workers: lines.filter_map(|(slot, bytes)| worker(slot, bytes)).collect(),
            cgi: jobs.filter_map(child).collect(),
        }
    }
}

fn worker(slot: usize, bytes: &[u8]) -> Option<Worker> {
    let state = State::from_u8(bytes[offset_of!(Slot, state)]);
    let count = |at| u64_at(bytes, at);
    Some(Worker {
        slot,
        pid: u32_at(bytes, offset_of!(Slot, pid)) as i32,
        state,
        generation: u32_at(bytes, offset_of!(Slot, generation)),
        is_primary: u32_at(bytes, offset_of!(Slot, primary)) != 0,
        connections: u32_at(bytes, offset_of!(Slot, connections)),
        answers: count(offset_of!(Slot, answers)),
        perl_requests: count(offset_of!(Slot, requests)),
        answered_bytes: count(offset_of!(Slot, answered_bytes)),
        new_uss_bytes: Some(count(offset_of!(Slot, new_uss_bytes))).filter(|bytes| *bytes > 0),
        running: running(bytes),
    })
    .filter(|_| state != State::Free)
}

fn running(bytes: &[u8]) -> Option<Run> {
    let since_ns = u64_at(bytes, offset_of!(Slot, perl_since_ns));
    let client = offset_of!(Slot, running) + offset_of!(Running, client);
    (since_ns != 0).then(|| Run {
        since_ns,
        request: first_line(&bytes[offset_of!(Slot, request)..]),
        client: address(&bytes[client..]),
    })
}

/// Of a text whose head may have secrets in its further lines.
fn first_line(text: &[u8]) -> String {
    type Head = Text<{ super::HEAD_MAX / 8 }>;
    let length = (u32_at(text, offset_of!(Head, len)) as usize).min(super::HEAD_MAX);
    let words = &text[offset_of!(Head, words)..][..length];
    let end = words.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(length);
    String::from_utf8_lossy(&words[..end]).into_owned()
}

fn address(bytes: &[u8]) -> SocketAddr {
    let half = |number: usize| u128::from(u64_at(bytes, offset_of!(Address, ip) + number * 8));
    let ip = IpAddr::from(Ipv6Addr::from_bits(half(0) << 64 | half(1))).to_canonical();
    SocketAddr::new(ip, u32_at(bytes, offset_of!(Address, port)) as u16)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Self::Free => "free",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Dying => "dying",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::fd::OwnedFd,
        sync::atomic::Ordering::{Relaxed, SeqCst},
    };

    use super::{
        super::{ABANDONED, Scoreboard},
        *,
    };

    /// This process is the master; boards of other tests may be among its descriptors too.
    fn board(workers: usize) -> (Scoreboard, Window) {
        let (board, file): (_, Option<OwnedFd>) = Scoreboard::new(workers).expect("memory");
        (board, Window { file: file.expect("a file").into() })
    }

    #[test]
    fn what_a_worker_writes_is_seen() {
        let (board, window) = board(3);
        let slot = &board.slots[1];
        slot.set_state(State::Ready);
        slot.pid.store(77, Relaxed);
        slot.generation.store(2, Relaxed);
        slot.requests.store(4, Relaxed);
        slot.count_answer(1000);
        slot.count_answer(24);
        slot.request.set(b"GET /hold.pl HTTP/1.1\r\nCookie: secret\r\n\r\n");
        slot.running.client.set("192.0.2.1:4711".parse().expect("an address"));
        slot.perl_since_ns.store(5, Relaxed);
        assert_eq!(board.take_cgi(1, 3), Some(0));
        assert!(board.cgi[0].set_pid(board.cgi[0].serial(), 88));
        let view = window.look(1).expect("a board");
        let [worker] = &view.workers[..] else { panic!("{view:?}") };
        let numbers = (worker.slot, worker.pid, worker.generation, worker.connections);
        assert_eq!((numbers, worker.state), ((1, 77, 2, 0), State::Ready));
        let counts = (worker.answers, worker.perl_requests, worker.answered_bytes);
        assert_eq!((counts, worker.new_uss_bytes), ((2, 4, 1024), None));
        let run = worker.running.as_ref().expect("it runs");
        assert_eq!((run.since_ns, &*run.request), (5, "GET /hold.pl HTTP/1.1"));
        assert_eq!((run.client.to_string(), view.cgi), ("192.0.2.1:4711".to_owned(), vec![88]));
        board.cgi[0].owner.store(ABANDONED, SeqCst);
        slot.clear();
        assert!(window.look(1).expect("a board").workers.is_empty());
    }

    #[test]
    fn a_master_is_known_by_its_descriptors() {
        let own = std::process::id() as i32;
        let (_board, _window) = board(1);
        let window = Window::open(own).expect("ours").expect("a board");
        assert!(window.look(own).is_ok());
        let flags = window.file.metadata().map(|_| {
            // SAFETY: asks for a descriptor's flags and changes nothing.
            unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&window.file), libc::F_GETFL) }
        });
        let access = flags.expect("open") & libc::O_ACCMODE;
        assert_eq!(access, libc::O_RDONLY, "by which it is no master itself");
        // Linux has no more processes.
        assert!(Window::open((1 << 22) + 1).expect("nobody is no error").is_none());
    }

    #[test]
    fn others_boards_are_refused_with_words() {
        let (_board, window) = board(2);
        let mut header = [0; 64];
        window.file.read_exact_at(&mut header, 0).expect("a header");
        let told = |header: &[u8]| match Layout::of(header, 9) {
            Ok(layout) => panic!("{} slots", layout.slots),
            Err(error) => error.to_string(),
        };
        let with = |at: usize, byte: u8| {
            let mut other = header;
            other[at] = byte;
            told(&other)
        };
        assert!(with(0, b'x').contains("is none"));
        assert!(with(offset_of!(Header, version), 9).contains("(layout 9, here 1)"));
        for at in [offset_of!(Header, slot_bytes), offset_of!(Header, cgi_at) + 2] {
            assert!(with(at, 1).contains("is none"), "{at}");
        }
        assert!(with(offset_of!(Header, slots) + 3, 255).contains("is none"));
        assert!(told(&[]).contains("is none") && told(&MAGIC).contains("layout 0"));
    }

    #[test]
    fn a_board_that_is_cut_is_none() {
        let file = tempfile::tempfile().expect("a file");
        let (_board, window) = board(2);
        let mut header = [0; 64];
        window.file.read_exact_at(&mut header, 0).expect("a header");
        file.write_all_at(&header, 0).expect("written");
        let told = Window { file }.look(3).expect_err("cut").to_string();
        assert!(told.contains("process 3 calls its scoreboard is none"), "{told}");
    }
}
