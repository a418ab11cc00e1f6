#!/bin/bash
# Makes sure that Debian packages are there: scripts/packages.sh WHAT PACKAGE...
#
# Installs what is missing as root or through sudo without a password; otherwise prints the exact command
# and ends with status 1. A server among the packages is installed but never started.
set -euo pipefail

what=$1
shift
missing=()
for package in "$@"; do
    status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    [[ $status == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

command=(apt-get install -y --no-install-recommends "${missing[@]}")
echo "Debian packages missing for $what: ${missing[*]}"
if ! command -v apt-get >/dev/null; then
    echo "This is no Debian system: install what corresponds to them, then run the command again." >&2
    exit 1
fi
if [[ $(id -u) == 0 ]]; then
    root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    root=(sudo)
else
    printf 'Install them, then run the command again:\n\n    sudo %s\n\n' "${command[*]}" >&2
    exit 1
fi

# Debian starts a server as soon as it is installed unless this program says no.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
    trap '"${root[@]}" rm -f "$policy"' EXIT
fi

install() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive "${command[@]}" </dev/null
}
if ! install; then
    echo "apt-get install failed; fetching the package lists and trying once more"
    "${root[@]}" apt-get update </dev/null
    install
fi
