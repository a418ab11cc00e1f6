//! The epoll engine against small scripted servers: every way an answer can go wrong, and counts
//! that add up.

static ENGINE: &drom_load::Engine = &drom_load::Engine::Epoll;

include!("support/engine.rs");
