#!/bin/bash
# Races the execution models of one Perl script and says where the report is: scripts/demo.sh DROM
set -euo pipefail

drom=$1
out=runs/demo-$(date +%Y%m%d-%H%M%S)
# Progress needs a line a slice where there is no terminal to redraw.
[[ -t 2 ]] && verbose=() || verbose=(--verbose)

status=0
"$drom" compare examples/ladder/ladder.toml --quick "${verbose[@]}" --out "$out" || status=$?
case $status in
    0) ;;
    6) echo "A self-check failed: the report says which, and which numbers it spoils." ;;
    *) exit "$status" ;;
esac
[[ -f $out/report.html ]] || { echo "demo: there is no $out/report.html" >&2; exit 1; }
printf '\nThe report is in %s/%s/report.html\n' "$PWD" "$out"
