//! The CGI tier: a fresh process for each request.
//!
//! A worker writes a [`job::Job`] with the child's descriptors to the spawner, a small process that
//! never runs Perl. The spawner starts programs itself and passes Perl scripts to a zygote. What
//! the child prints comes back to the worker through a pipe, and what it says on its standard error
//! through another.

pub mod constant;
pub mod errors;
pub mod job;
pub mod runners;
pub mod spawner;
pub mod zygote;
