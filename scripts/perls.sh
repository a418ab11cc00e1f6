#!/bin/bash
# Other perls, as Debian's releases have them: `scripts/perls.sh FOLDER` makes a small system in
# FOLDER/RELEASE for each, to be run with chroot (by root). Nothing of this system is changed.
set -euo pipefail

folder=$(realpath -m "${1:?the folder to make them in}")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
key=/usr/share/keyrings/debian-archive-keyring.gpg
# Those besides are what perl and its libraries link to.
common='perl-base perl libcrypt1 libc6 zlib1g libbz2-1.0'

fetch() { # RELEASE, VERSION, further packages
    local root=$folder/$1 apt=$folder/.apt-$1
    [ -x "$root/usr/bin/perl" ] && return
    mkdir -p "$root" "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb [signed-by=$key] $mirror $1 main" >"$apt/sources.list"
    local options="-qq -o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists=$apt/lists -o Dir::Cache=$apt/cache -o Dir::State::status=/dev/null
        -o APT::Sandbox::User=root"
    (
        cd "$apt"
        apt-get update $options
        apt-get download $options $common "libperl$2" "perl-modules-$2" $3
        for package in *.deb; do dpkg-deb -x "$package" "$root"; done
    )
    # As base-files has them where they are not folders of their own.
    for name in lib lib64; do [ -e "$root/$name" ] || ln -s "usr/$name" "$root/$name"; done
    mkdir -p "$root/tmp" "$root/dev"
    : >"$root/dev/null"
    rm -r "$apt"
    echo "$root: $(LC_ALL=C chroot "$root" /usr/bin/perl -e 'print $^V')"
}

fetch bullseye 5.32 'libdb5.3 libgdbm6 libgdbm-compat4'
fetch trixie 5.40 'libdb5.3t64 libgdbm6t64 libgdbm-compat4t64'
fetch sid 5.42 'libdb5.3t64 libgdbm6t64 libgdbm-compat4t64'
