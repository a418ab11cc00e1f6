//! The server: configuration, connections, dispatch, supervision of workers.

pub mod config;
pub mod map;
