//! Processes and the machine, read from `/proc` and cgroups, and the one clock of the project.
//! Knows nothing of Perl or HTTP.

pub mod clock;
pub mod machine_load;
pub mod memory;
pub mod thread_cpu;
