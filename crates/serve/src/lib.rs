//! The server: configuration, connections, dispatch, supervision of workers.

pub mod config;
pub mod error_page;
pub mod files;
pub mod http;
pub mod log;
pub mod map;
