//! Processes and the machine, read from `/proc` and cgroups, and the one clock of the project.
//! Knows nothing of Perl or HTTP.

pub mod anatomy;
pub mod clock;
mod cores;
mod counters;
mod footprint;
mod machine;
pub mod machine_load;
pub mod mounts;
pub mod network;
mod process;
mod process_cpu;
pub mod scan;
mod segments;
pub mod smaps;
mod sockets;
pub mod thread_cpu;
pub mod usage;
pub mod vitals;

pub use cores::{allowed_cores, core_count, free_cores, pin_current_thread};
pub use counters::Counters;
pub use footprint::{Footprint, FootprintError, add_segments};
pub use machine::{Fact, machine_record};
pub use process::{
    Memory, Process, Stat, all_processes, family, lives, memory, self_cpu_s, threads, tree,
};
pub use process_cpu::{RunState, process_cpu};
pub use segments::{Segment, Segments};
pub use sockets::{holds_one, listening_on};
