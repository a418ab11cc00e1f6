#!/bin/sh
# Builds the shim and the counter (exact/) with AddressSanitizer and UndefinedBehaviorSanitizer and runs their
# tests on them, those of refused memory and descriptors (scarce.c, counter.c) among them.
# Not part of `make test`: it needs GCC's sanitizer libraries. Leaks are not looked for: perl keeps its memory.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO_TARGET_DIR:=$(pwd)/../../target}"
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/hostile"
export DROM_SHIM_CFLAGS='-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr'
cargo test --no-run --test api --test counter
built() { ls -t "$CARGO_TARGET_DIR/debug/deps/$1"-* | grep -v '\.d$' | head -1; }
runtime="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:halt_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
LD_PRELOAD="$runtime" "$(built api)" "$@"
LD_PRELOAD="$runtime" "$(built counter)"
