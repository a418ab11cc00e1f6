//! What a server saw and did, to the request. Every request that it read a byte of ends as exactly
//! one of the kinds below, so that they add up: [`Counts::accounted`].

use std::{collections::BTreeMap, time::Duration};

use drom_stats::Latency;

#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub connections: u64,
    /// Connections over which no byte came.
    pub mute: u64,
    /// Connections that were reset when they were accepted.
    pub turned_away: u64,
    /// Requests of which at least a byte was read, late ones too.
    pub begun: u64,
    /// Those of them that were read to their end.
    pub whole: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Answers given whole and taken, by status: the client's kernel had them when it closed, and
    /// its program had read them.
    pub taken: BTreeMap<u16, u64>,
    /// Those of them with another body than they should have.
    pub other_body: u64,
    /// Answers given whole that the client closed upon without reading them.
    pub crossed: u64,
    /// Broken answers that were given whole.
    pub flawed: u64,
    /// The connection was closed, or reset, in the answer or in the request.
    pub cut_close: u64,
    pub cut_reset: u64,
    /// Answers given whole before a reset, and no request after them: the client has them, or has
    /// not.
    pub reset_after: u64,
    /// Requests that came when the connection was closed already.
    pub late: u64,
    /// The client closed before the answer was given whole.
    pub abandoned: u64,
    /// From the read of the request's last byte to the write of the answer's last.
    pub delays: Latency,
    /// Time in which the server wanted a CPU and had none, until it settled.
    pub waited: Duration,
}

impl Counts {
    /// Answers given whole and taken.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.taken.values().sum()
    }

    /// Requests whose end is known: all that have begun, when the server has settled.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        self.answers()
            + self.crossed
            + self.flawed
            + self.cut_close
            + self.cut_reset
            + self.reset_after
            + self.late
            + self.abandoned
    }
}
