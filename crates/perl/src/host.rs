//! The functions that the shim calls: C on the outside, [`Exchange`] on the inside.
//!
//! One interpreter, one thread, one request at a time: the request being answered is a global that only
//! [`with_exchange`] sets. A number that is not the current request's gets nothing.

use std::{
    cell::UnsafeCell,
    ffi::{c_char, c_int, c_void},
    ptr,
};

use crate::{
    Command, Exchange, Number, Table, TableKind, Text,
    shim::{Pair, Str},
};

#[repr(C)]
struct Host {
    text: extern "C" fn(u64, c_int) -> Str,
    set_text: extern "C" fn(u64, c_int, *const u8, usize),
    number: extern "C" fn(u64, c_int) -> i64,
    set_number: extern "C" fn(u64, c_int, i64),
    print: extern "C" fn(u64, *const u8, usize) -> c_int,
    flush: extern "C" fn(u64) -> c_int,
    read: extern "C" fn(u64, *mut u8, usize) -> isize,
    environment: extern "C" fn(u64, *mut usize) -> *const Pair,
    log: extern "C" fn(u64, c_int, *const u8, usize),
    send_file: extern "C" fn(u64, *const u8, usize, i64, i64) -> c_int,
    command: extern "C" fn(u64, c_int, *const u8, usize),
    module_source: extern "C" fn(*const u8, usize) -> Str,
    table: extern "C" fn(u64, c_int) -> u64,
    table_new: extern "C" fn() -> u64,
    table_free: extern "C" fn(u64),
    table_get: extern "C" fn(u64, *const u8, usize, usize) -> Str,
    table_put: extern "C" fn(u64, *const u8, usize, *const u8, usize, c_int),
    table_unset: extern "C" fn(u64, *const u8, usize),
    table_clear: extern "C" fn(u64),
    table_at: extern "C" fn(u64, usize, *mut Pair) -> c_int,
}

static HOST: Host = Host {
    text,
    set_text,
    number,
    set_number,
    print,
    flush,
    read,
    environment,
    log,
    send_file,
    command,
    module_source,
    table,
    table_new,
    table_free,
    table_get,
    table_put,
    table_unset,
    table_clear,
    table_at,
};

pub fn host() -> *const c_void {
    (&raw const HOST).cast()
}

struct Current {
    id: u64,
    exchange: *mut dyn Exchange,
    pairs: Vec<Pair>,
}

struct Slot(UnsafeCell<Option<Current>>, UnsafeCell<Vec<Vec<u8>>>);
// SAFETY: only the thread that runs Perl touches the slot; a process has one such thread.
unsafe impl Sync for Slot {}
static CURRENT: Slot = Slot(UnsafeCell::new(None), UnsafeCell::new(Vec::new()));

/// What the server says of itself when no request asks: while start-up code runs, between requests.
#[derive(Default)]
pub struct ServerFacts {
    pub texts: Vec<(Text, Vec<u8>)>,
    pub numbers: Vec<(Number, i64)>,
    /// `PerlSetVar` and `PerlAddVar` outside of sections.
    pub vars: Table,
    /// Where its messages go, with their level.
    pub log: Option<ServerLog>,
}

/// Takes a level of Apache (3 is an error, 4 a warning) and a message.
pub type ServerLog = Box<dyn Fn(i32, &[u8])>;

struct About(UnsafeCell<ServerFacts>);
// SAFETY: see Slot.
unsafe impl Sync for About {}
static SERVER: About = About(UnsafeCell::new(ServerFacts {
    texts: Vec::new(),
    numbers: Vec::new(),
    vars: Table::new(),
    log: None,
}));

/// From now on Perl finds these in the server's object. Before [`crate::Interpreter::start`], whose
/// switches may run code.
pub fn set_server(facts: ServerFacts) {
    // SAFETY: see Slot.
    unsafe { *SERVER.0.get() = facts };
}

/// What is asked of number 0, which is no request, is asked of the server.
fn server(id: u64) -> Option<&'static mut ServerFacts> {
    // SAFETY: see Slot; a callback never calls another, so there is one borrow at a time.
    (id == 0).then(|| unsafe { &mut *SERVER.0.get() })
}

/// Makes `exchange` the current request while `body` runs.
pub fn with_exchange<R>(id: u64, exchange: &mut dyn Exchange, body: impl FnOnce() -> R) -> R {
    // SAFETY: the pointer is used by the callbacks below only while `body` runs, during which the
    // caller's `&mut` is not used otherwise; the slot belongs to this thread (see Slot).
    unsafe {
        let exchange: *mut (dyn Exchange + 'static) = std::mem::transmute(exchange);
        let pairs = (*CURRENT.0.get()).take().map(|c| c.pairs).unwrap_or_default();
        *CURRENT.0.get() = Some(Current { id, exchange, pairs });
        let result = body();
        if let Some(current) = (*CURRENT.0.get()).as_mut() {
            current.id = 0;
        }
        result
    }
}

/// Scripts that start-up code asked to compile (`Command::Preload`), in order.
pub fn take_preloads() -> Vec<Vec<u8>> {
    // SAFETY: see Slot.
    unsafe { std::mem::take(&mut *CURRENT.1.get()) }
}

fn current(id: u64) -> Option<&'static mut Current> {
    // SAFETY: see Slot; a callback never calls another, so there is one borrow at a time.
    unsafe { (*CURRENT.0.get()).as_mut().filter(|c| c.id == id && id != 0) }
}

fn exchange(id: u64) -> Option<&'static mut dyn Exchange> {
    // SAFETY: the pointer is valid while its id is set; see `with_exchange`.
    current(id).map(|c| unsafe { &mut *c.exchange })
}

/// SAFETY: `ptr` must be readable for `len` bytes for as long as the result is used, or NULL.
unsafe fn bytes<'a>(ptr: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: as the caller promises.
    if ptr.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(ptr, len) } }
}

fn to_str(text: Option<&[u8]>) -> Str {
    match text {
        Some(t) => Str { ptr: t.as_ptr(), len: t.len() },
        None => Str { ptr: ptr::null(), len: 0 },
    }
}

fn errno_of(result: Result<(), i32>) -> c_int {
    result.err().unwrap_or(0)
}

extern "C" fn text(r: u64, field: c_int) -> Str {
    let Some(field) = Text::from_index(field) else { return to_str(None) };
    if let Some(server) = server(r) {
        let found = server.texts.iter().find(|(known, _)| *known == field);
        return to_str(found.map(|(_, text)| text.as_slice()));
    }
    exchange(r).map_or(to_str(None), |e| to_str(e.text(field)))
}

extern "C" fn set_text(r: u64, field: c_int, ptr: *const u8, len: usize) {
    if let Some((exchange, field)) = exchange(r).zip(Text::from_index(field)) {
        // SAFETY: the shim passes a string that lives through this call, or NULL for undef.
        let value = (!ptr.is_null()).then(|| unsafe { bytes(ptr, len) });
        exchange.set_text(field, value);
    }
}

extern "C" fn number(r: u64, field: c_int) -> i64 {
    let Some(field) = Number::from_index(field) else { return 0 };
    if let Some(server) = server(r) {
        let found = server.numbers.iter().find(|(known, _)| *known == field);
        return found.map_or(0, |(_, number)| *number);
    }
    exchange(r).map_or(0, |e| e.number(field))
}

extern "C" fn set_number(r: u64, field: c_int, value: i64) {
    if let Some((exchange, field)) = exchange(r).zip(Number::from_index(field)) {
        exchange.set_number(field, value);
    }
}

extern "C" fn print(r: u64, ptr: *const u8, len: usize) -> c_int {
    // SAFETY: the shim passes a string that lives through this call.
    exchange(r).map_or(libc::EBADF, |e| errno_of(e.print(unsafe { bytes(ptr, len) })))
}

extern "C" fn flush(r: u64) -> c_int {
    exchange(r).map_or(libc::EBADF, |e| errno_of(e.flush()))
}

extern "C" fn read(r: u64, into: *mut u8, room: usize) -> isize {
    let Some(exchange) = exchange(r) else { return -(libc::EBADF as isize) };
    if room == 0 {
        return 0;
    }
    // SAFETY: the shim passes a buffer of `room` bytes that it owns.
    let into = unsafe { std::slice::from_raw_parts_mut(into, room) };
    match exchange.read(into) {
        Ok(got) => got as isize,
        Err(errno) => -(errno as isize),
    }
}

extern "C" fn environment(r: u64, count: *mut usize) -> *const Pair {
    let Some(current) = current(r) else {
        // SAFETY: the shim passes the address of a local.
        unsafe { *count = 0 };
        return ptr::null();
    };
    // SAFETY: the exchange is valid while its id is set; `count` is a local of the shim.
    unsafe {
        let table = (*current.exchange).environment();
        current.pairs.clear();
        let pairs =
            table.iter().map(|(k, v)| Pair { key: to_str(Some(k)), value: to_str(Some(v)) });
        current.pairs.extend(pairs);
        *count = current.pairs.len();
    }
    current.pairs.as_ptr()
}

extern "C" fn log(r: u64, level: c_int, ptr: *const u8, len: usize) {
    // SAFETY: the shim passes a string that lives through this call.
    let text = unsafe { bytes(ptr, len) };
    match exchange(r) {
        Some(exchange) => exchange.log(level, text),
        None => match server(r).and_then(|facts| facts.log.as_ref()) {
            Some(log) => log(level, text),
            None => eprintln_bytes(text),
        },
    }
}

/// A process without a server, and a request that has ended: the error log is standard error.
fn eprintln_bytes(text: &[u8]) {
    use std::io::Write;
    let mut line = text.to_vec();
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    // A log that cannot be written has nowhere to complain.
    let _ = std::io::stderr().write_all(&line);
}

extern "C" fn send_file(r: u64, path: *const u8, len: usize, offset: i64, count: i64) -> c_int {
    // SAFETY: the shim passes a string that lives through this call.
    let path = unsafe { bytes(path, len) };
    exchange(r).map_or(libc::EBADF, |e| errno_of(e.send_file(path, offset, count)))
}

const COMMANDS: [Command; 7] = [
    Command::Redirect,
    Command::CustomResponse,
    Command::Retire,
    Command::AssBackwards,
    Command::Preload,
    Command::SendHead,
    Command::Forked,
];

extern "C" fn command(r: u64, what: c_int, ptr: *const u8, len: usize) {
    let Some(&what) = COMMANDS.get(what as usize) else { return };
    // SAFETY: the shim passes a string that lives through this call.
    let text = unsafe { bytes(ptr, len) };
    if what == Command::Preload {
        // SAFETY: see Slot.
        unsafe { (*CURRENT.1.get()).push(text.to_vec()) };
    } else if let Some(exchange) = exchange(r) {
        exchange.command(what, text);
    }
}

mod library {
    include!(concat!(env!("OUT_DIR"), "/library.rs"));
}

extern "C" fn module_source(path: *const u8, len: usize) -> Str {
    // SAFETY: the shim passes a string that lives through this call.
    let path = unsafe { bytes(path, len) };
    let found = library::LIBRARY.iter().find(|(name, _)| name.as_bytes() == path);
    to_str(found.map(|(_, source)| source.as_bytes()))
}

/// A request's table: its number, the kind, and a 1 that no pointer to a `Table` has.
extern "C" fn table(r: u64, kind: c_int) -> u64 {
    (r << 8) | ((kind as u64) << 1) | 1
}

extern "C" fn table_new() -> u64 {
    Box::into_raw(Box::<Table>::default()) as u64
}

extern "C" fn table_free(handle: u64) {
    if handle & 1 == 0 && handle != 0 {
        // SAFETY: an even handle comes from table_new and is freed once, by the SV that owns it.
        drop(unsafe { Box::from_raw(handle as *mut Table) });
    }
}

fn with_table<R>(handle: u64, otherwise: R, body: impl FnOnce(&'static mut Table) -> R) -> R {
    if handle & 1 == 0 {
        // SAFETY: an even handle comes from table_new and lives as long as the SV that holds it.
        return match unsafe { (handle as *mut Table).as_mut() } {
            Some(table) => body(table),
            None => otherwise,
        };
    }
    let kind = TableKind::from_index((handle >> 1 & 0x7f) as i32);
    if let (Some(server), Some(TableKind::DirConfig)) = (server(handle >> 8), kind) {
        return body(&mut server.vars);
    }
    match exchange(handle >> 8).zip(kind) {
        Some((exchange, kind)) => body(exchange.table(kind)),
        None => otherwise,
    }
}

extern "C" fn table_get(handle: u64, key: *const u8, len: usize, nth: usize) -> Str {
    // SAFETY: the shim passes a string that lives through this call.
    let key = unsafe { bytes(key, len) };
    with_table(handle, to_str(None), |t| to_str(t.get_nth(key, nth)))
}

extern "C" fn table_put(
    handle: u64,
    key: *const u8,
    klen: usize,
    value: *const u8,
    vlen: usize,
    how: c_int,
) {
    // SAFETY: the shim passes strings that live through this call.
    let (key, value) = unsafe { (bytes(key, klen), bytes(value, vlen)) };
    with_table(handle, (), |table| match how {
        0 => table.set(key, value),
        1 => table.add(key, value),
        _ => table.merge(key, value),
    });
}

extern "C" fn table_unset(handle: u64, key: *const u8, len: usize) {
    // SAFETY: the shim passes a string that lives through this call.
    let key = unsafe { bytes(key, len) };
    with_table(handle, (), |t| t.unset(key));
}

extern "C" fn table_clear(handle: u64) {
    with_table(handle, (), Table::clear);
}

extern "C" fn table_at(handle: u64, index: usize, pair: *mut Pair) -> c_int {
    with_table(handle, 0, |table| match table.at(index) {
        Some((key, value)) => {
            // SAFETY: the shim passes the address of a local.
            unsafe { *pair = Pair { key: to_str(Some(key)), value: to_str(Some(value)) } };
            1
        }
        None => 0,
    })
}

/// Strings as C wants them: one block of bytes and pointers into it, kept alive by the value
/// itself.
pub struct CStrings {
    _text: Vec<u8>,
    pointers: Vec<*const c_char>,
}

impl CStrings {
    /// NUL bytes inside a string are left out.
    pub fn new<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Self {
        let (mut text, mut starts) = (Vec::new(), Vec::new());
        for string in strings {
            starts.push(text.len());
            text.extend(string.as_ref().iter().filter(|&&b| b != 0));
            text.push(0);
        }
        let pointer = |start: usize| text[start..].as_ptr().cast();
        let pointers = starts.into_iter().map(pointer).chain([ptr::null()]).collect();
        Self { _text: text, pointers }
    }

    pub fn count(&self) -> c_int {
        self.pointers.len() as c_int - 1
    }

    pub fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}
