#!/bin/bash
# Says clearly when Rust is missing or too old for the workspace; silent otherwise.
set -euo pipefail

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
    echo "Rust is not installed: cargo was not found. Drom needs Rust $wanted or newer." >&2
    echo "Get it from https://rustup.rs (Debian 12's own rustc is too old), then run the command again." >&2
    exit 1
fi
found=$(rustc --version | cut -d' ' -f2)
if [[ $(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
    echo "Rust $found is too old: Drom needs $wanted or newer. Run: rustup update stable" >&2
    exit 1
fi
