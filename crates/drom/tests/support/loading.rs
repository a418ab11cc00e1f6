//! `drom load` as a command, a server that answers at once, and the JSON that comes of it.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::process::{Command, Output, Stdio};

use drom_load::{NullServer, null_server};
use serde_json::Value;

pub fn drom(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("load").args(arguments).stdin(Stdio::null());
    command.output().expect("drom can be started")
}

/// It answers as long as the value lives.
pub fn server() -> (NullServer, String) {
    let server = null_server().expect("a server");
    let url = format!("http://{}/", server.address());
    (server, url)
}

pub fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON on stdout")
}
