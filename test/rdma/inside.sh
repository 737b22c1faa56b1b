#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A command in a root folder, by chroot. All mounts live in a mount namespace of the command's own: there
# is nothing to undo, however it ends.
set -euo pipefail

if [ $# -lt 2 ] || [ "$1" = --help ]; then
    echo "usage: test/rdma/inside.sh ROOT COMMAND [ARGUMENT...]"
    echo "Runs COMMAND in the root folder ROOT, with /proc, /sys, /dev and a /dev/shm of its own. Needs root."
    if [ "${1:-}" = --help ]; then exit 0; else exit 2; fi
fi
# shellcheck disable=SC2016
exec unshare -m --propagation private bash -ec '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    [ -e "$root/etc/resolv.conf" ] || : >"$root/etc/resolv.conf"
    [ ! -e /etc/resolv.conf ] || mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
    exec env -u TMPDIR HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"' inside "$@"
