#!/bin/bash
# How right the load generator is, as bench/ACCURACY.md: beside arithmetic, servers that know their
# own clock, planted and clean cases of the verdict, and known capacities. A quarter of an hour, on
# a machine with little else to do.
set -euo pipefail
examples=$1

fact() { printf -- '- %s: %s\n' "$1" "$2"; }

cat <<'TEXT'
# Accuracy

Written by `make accuracy`; do not edit. What [RESULTS.md](RESULTS.md) is for speed: figures of `drom load` beside what is known to be so.

TEXT
fact date "$(date -u '+%Y-%m-%d %H:%M UTC')"
fact cores "$(nproc)"
fact kernel "$(uname -r)"
fact drom "$(git describe --always --dirty)"
cat <<'TEXT'

## Clocks and arrivals

Freeze: answers after 50 ms, expected are the quantiles by arithmetic. Delays: expected is the server's own clock for the same 1,000 answers, on cores
that are kept awake (a virtual CPU that halts is woken some 50 us late), the nearest of twenty tries, for noise only adds. Arrivals: planned times of a run
of 5 s. Counts against the server's own over a thousand faulty runs are a test: `cargo test -p drom-load --test faults`.

TEXT
"$examples/accuracy"
printf '\n## Was the client the limit?\n\nCases that no threshold was set by; `verdicts drawn SEED` of the test kit, with each case, is the same. Asked: 95 %% named, at most 2 %% false.\n\n'
for seed in "$RANDOM" "$RANDOM"; do
    printf '    seed %s\n' "$seed"
    "$examples/verdicts" drawn "$seed" | tail -3 | sed 's/^/    /'
done
printf '\n## Capacity\n\nServers of a known limit, brute force in steps of 1 %%, and `--find-capacity`. Asked: within 5 %% in 60 s.\n\n'
"$examples/capacity" 700 2500 | sed 's/^/    /'
