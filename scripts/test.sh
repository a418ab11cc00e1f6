#!/bin/bash
# Every test of the project: form, lints, Rust, Perl. Ends with status 0 only when all of them passed.
set -euo pipefail

step() { printf '\n== %s\n' "$*"; "$@"; }

# rustup's minimal profile has neither; what is not checked is said.
if cargo fmt --version >/dev/null 2>&1; then
    step cargo fmt --all --check
else
    printf '\n== not checked: form (rustup component add rustfmt)\n'
fi
if cargo clippy --version >/dev/null 2>&1; then
    step cargo clippy --workspace --all-targets --quiet -- -D warnings
else
    printf '\n== not checked: lints (rustup component add clippy)\n'
fi
# Most tests wait more than they work: for servers, timeouts and rates.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
step cargo test --workspace
if compgen -G 'perl/t/*.t' >/dev/null; then
    step prove --recurse -Iperl/lib perl/t
fi
