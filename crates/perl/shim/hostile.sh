#!/bin/sh
# Builds the shim with AddressSanitizer and UndefinedBehaviorSanitizer and runs the tests of the API on it,
# that of refused memory and descriptors (scarce.c) among them.
# Not part of `make test`: it needs GCC's sanitizer libraries. Leaks are not looked for: perl keeps its memory.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO_TARGET_DIR:=$(pwd)/../../target}"
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/hostile"
export DROM_SHIM_CFLAGS='-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr'
cargo test --no-run --test api
binary=$(ls -t "$CARGO_TARGET_DIR"/debug/deps/api-* | grep -v '\.d$' | head -1)
runtime="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libubsan.so)"
ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    LD_PRELOAD="$runtime" "$binary" "$@"
