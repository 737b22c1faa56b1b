#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A root folder of a newer Debian with compilers and that release's UCX. A folder that is complete is left
# as it is; one whose making was cut short is continued.
set -euo pipefail

if [ $# != 2 ] || [ "$1" = --help ]; then
    echo "usage: test/rdma/root.sh trixie|sid FOLDER"
    echo "Makes FOLDER a Debian root with what building and testing kvlane needs. Needs root and debootstrap."
    if [ "${1:-}" = --help ]; then exit 0; else exit 2; fi
fi
suite=$1 root=$2 here=$(cd "$(dirname "$0")" && pwd)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages="gcc g++ make autoconf automake libtool pkgconf libucx-dev ucx-utils libibverbs-dev librdmacm-dev
    libnuma-dev libxxhash-dev libjansson-dev libgtest-dev ibverbs-providers ibverbs-utils iproute2 procps
    xz-utils python3-minimal"

inside() { "$here/inside.sh" "$root" "$@"; }

# logged WHAT COMMAND...: quiet, but for the end of the log if it fails
logged() {
    local what=$1
    shift
    if ! "$@" >"$root.log" 2>&1 </dev/null; then
        echo "root.sh: $suite: $what failed:" >&2
        tail -5 "$root.log" >&2
        exit 1
    fi
}

base() {
    local mirror
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$')
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    # the keys of a release that came after this host's keyring are in its update
    logged keyring apt-get install -y -qq --no-install-recommends debian-archive-keyring
    logged debootstrap unshare -m --propagation private debootstrap --variant=minbase \
        --force-check-gpg --keyring="$keyring" "$suite" "$root" "${mirror%/}"
    printf 'APT::Install-Recommends "0";\nAcquire::Languages "none";\n' >"$root/etc/apt/apt.conf.d/90kvlane"
    printf 'path-exclude=/usr/share/%s/*\n' doc man locale info >"$root/etc/dpkg/dpkg.cfg.d/90kvlane"
    echo force-unsafe-io >>"$root/etc/dpkg/dpkg.cfg.d/90kvlane" # it can be made again
    touch "$root/etc/kvlane-base"
}

# UCX's modules for AMD and Intel GPUs pull 250 MB of libraries that nobody here uses: an empty package
# provides their names, and the modules do not load
stand_in() {
    local work=$root/tmp/stand-in name names=
    mkdir -p "$work/DEBIAN"
    for name in libamdhip64-5 libamdhip64-6 libamdhip64-7 libhsa-runtime64-1 libze1; do
        names="$names${names:+, }$name (= 99:99)"
    done
    cat >"$work/DEBIAN/control" <<CONTROL
Package: kvlane-stand-in
Version: 1
Architecture: $(dpkg --print-architecture)
Maintainer: none <none@localhost>
Provides: $names
Description: names of GPU libraries that are not wanted here
CONTROL
    chmod 755 "$work" "$work/DEBIAN"
    logged stand-in dpkg-deb -b --root-owner-group "$work" "$work.deb"
    logged stand-in inside dpkg -i /tmp/stand-in.deb
    rm -rf "$work" "$work.deb"
}

[ ! -f "$root/etc/kvlane-ready" ] || exit 0
[ -f "$root/etc/kvlane-base" ] || base
stand_in
logged "apt-get update" inside apt-get update -qq
# where there is one, a small provider of what libibverbs1 wants of systemd
if inside apt-cache show systemd-standalone-sysusers >/dev/null 2>&1; then
    packages="$packages systemd-standalone-sysusers"
fi
# shellcheck disable=SC2086
logged "apt-get install" inside apt-get install -y -qq $packages
inside apt-get clean
rm -f "$root.log"
touch "$root/etc/kvlane-ready"
