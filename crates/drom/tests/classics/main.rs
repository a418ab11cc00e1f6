//! `drom ab`, `drom httperf` and `drom http_load` from outside: one program for all of
//! these tests, which wait side by side.

mod ab;
mod ab_tls;
mod http_load;
mod http_load_lists;
mod httperf;
mod httperf_calls;
#[path = "../support/openssl.rs"]
mod openssl;
#[path = "../support/recording.rs"]
mod recording;
mod tunnels;
