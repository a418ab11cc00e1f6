//! Why a process cannot be looked into.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("there is no process {pid}")]
    NoProcess { pid: i32 },
    #[error("process {pid} ended")]
    Ended { pid: i32 },
    #[error(
        "process {pid} may not be looked into: {source}; be its user or root, and where \
         kernel.yama.ptrace_scope is 1 or more, root (or its parent)"
    )]
    NotAllowed { pid: i32, source: io::Error },
    #[error(
        "process {pid} may be looked into and not be stopped (ptrace): {source}; is a debugger or \
         strace at it? Without --exact-stacks it is not stopped"
    )]
    NotStopped { pid: i32, source: io::Error },
    #[error("process {pid} is no Perl: neither its program nor a library of it has perl in it")]
    NoPerl { pid: i32 },
    #[error("process {pid} runs another program now, which is no Perl: {program}")]
    Replaced { pid: i32, program: String },
    #[error("{} of process {pid} cannot be read: {source}", file.display())]
    File { pid: i32, file: PathBuf, source: io::Error },
    #[error("{} is no program that can be understood: {reason}", file.display())]
    Program { file: PathBuf, reason: String },
    #[error("process {pid} runs perl {version}, whose memory is not known: {seen}")]
    Unknown { pid: i32, version: String, seen: String },
    #[error(
        "what the perl of process {pid} has allocated cannot be told apart: that is known of perl \
         5.34 to 5.42 built with threads or with usemultiplicity"
    )]
    UnknownHeap { pid: i32 },
    #[error("the perl of process {pid} has not begun or is over: it has no interpreter")]
    NoInterpreter { pid: i32 },
}
