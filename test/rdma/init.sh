#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: BSD-3-Clause
# The guest's first process: modules, the host's root read-only over 9p, a scratch /tmp with the shared
# folder in it; then guest.sh of that folder, whose output and exit code go back the same way.
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs dev /dev
while read -r module; do
    $B insmod "/mod/$module.ko" || $B echo "module $module was refused"
done </mod/order
P=trans=virtio,version=9p2000.L,msize=512000
$B mount -t 9p -o "$P,ro,cache=loose" hostroot /root || $B poweroff -f
$B mount -t proc proc /root/proc
$B mount -t sysfs sysfs /root/sys
$B mount --bind /dev /root/dev
[ -e /root/dev/fd ] || $B ln -s /proc/self/fd /root/dev/fd # bash reads < <(...) from there
$B mkdir -p /root/dev/shm /root/dev/pts
$B mount -t tmpfs tmpfs /root/dev/shm
$B mount -t tmpfs tmpfs /root/tmp
$B mount -t tmpfs tmpfs /root/run
$B mkdir -p /root/tmp/share
$B mount -t 9p -o "$P,rw" share /root/tmp/share
$B ip link set lo up
$B chroot /root /bin/bash /tmp/share/guest.sh >/root/tmp/share/out.txt 2>&1 </dev/null
$B echo $? >/root/tmp/share/rc
$B dmesg >/root/tmp/share/dmesg.txt
$B sync
$B umount /root/tmp/share
$B poweroff -f
