//! The rules of the house, kept by `tests/tidy.rs`.
