#!/bin/bash
# Every test of the project: form, lints, Rust, Perl. Ends with status 0 only when all of them passed.
set -euo pipefail

step() { printf '\n== %s\n' "$*"; "$@"; }

step cargo fmt --all --check
step cargo clippy --workspace --all-targets --quiet -- -D warnings
step cargo test --workspace
if compgen -G 'perl/t/*.t' >/dev/null; then
    step prove --recurse -Iperl/lib perl/t
fi
