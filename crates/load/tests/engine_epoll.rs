//! The epoll engine against small scripted servers.

#[path = "support/engine.rs"]
mod engine;

static ENGINE: &drom_load::Engine = &drom_load::Engine::Epoll;
