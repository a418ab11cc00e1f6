//! A perl with a heap of 100 MB, looked into from outside: how long it stands still for that, and
//! how long the rest takes.

use std::process::Command;

use drom_observe::clock;
use drom_profile::heap::Heap;

use super::{script, worker::Worker, wrong};
use crate::{error::Error, server::Ground};

pub struct Large(Worker);

/// What a look took.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub pause_ms: f64,
    pub analysis_ms: f64,
}

impl Large {
    /// When it has grown.
    pub fn grow(ground: &Ground) -> Result<Self, Error> {
        let mut perl = Command::new("perl");
        let log = ground.path("profile.log");
        Worker::start("perl", perl.arg(script("heap.pl")), &log).map(Self)
    }

    pub fn look(&self) -> Result<Look, Error> {
        let began_ns = clock::monotonic_ns();
        let heap = Heap::of(self.0.pid()).map_err(wrong)?;
        let variables = heap.inventory().variables;
        let all_ms = (clock::monotonic_ns() - began_ns) as f64 / 1e6;
        let items = variables.iter().find(|variable| variable.name == "%main::items");
        if items.is_none_or(|items| items.bytes < 80_000_000) {
            return Err(Error::Client("drom memory", format!("%main::items is {items:?}")));
        }
        let Some(pause) = heap.pause() else {
            return Err(Error::Client("drom memory", "the process was not stopped".to_owned()));
        };
        let pause_ms = pause.as_secs_f64() * 1e3;
        Ok(Look { pause_ms, analysis_ms: all_ms - pause_ms })
    }
}
