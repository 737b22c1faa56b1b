# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# What is tested over verbs; guest.sh reads it.

moves_all() {
    local test
    for test in put get; do
        moves $test 4296 40
        moves $test 1048576 12
        moves $test 2883584 6
    done
    for test in sg_put sg_get; do
        moves $test 4296:61 24
        moves $test 4296:61 12 message
    done
}

info_names_verbs() {
    if timeout 70 kvlane_info -s "$address" >/tmp/info.txt 2>&1 && grep -q rc_verbs /tmp/info.txt; then
        ok "kvlane_info shows the session on rc_verbs"
    else
        not_ok "kvlane_info shows the session on rc_verbs" "$(tail -3 /tmp/info.txt | tr '\n' ' ')"
    fi
}

# over_verbs PROGRAM: its tests that need a verbs device
over_verbs() {
    local out=/tmp/$1.txt rc name
    KVL_TEST_RDMA=10.77.0.1,va0 SHIM_TIMEOUT_S=240 timeout 600 "$TESTS/$1" --gtest_filter='*over_verbs*' >"$out" 2>&1
    rc=$?
    while read -r name; do ok "$name"; done < <(sed -n 's/^\[       OK \] \([^ ]*\) (.*/\1/p' "$out")
    while read -r name; do
        not_ok "$name" "$(grep -m2 -A3 ': Failure' "$out" | tr '\n' ' ' | cut -c1-300)"
    done < <(sed -n 's/^\[  FAILED  \] \([^ ]*\) (.*/\1/p' "$out")
    if [ $rc != 0 ] && ! grep -q '^\[  FAILED  \]' "$out"; then
        not_ok "$1 over verbs" "exit $rc: $(tail -3 "$out" | tr '\n' ' ')"
    fi
}

# the conformance tests
conform() {
    if [ -x "$TESTS/test_conform" ]; then
        over_verbs test_conform
    else
        skip "conform over verbs" "no GoogleTest in the build"
    fi
}

# device memory of the fake driver, which a soft device can be made to reach
device() {
    if [ -x "$TESTS/test_device" ]; then
        KVL_TEST_CUDA=$TESTS/libfakecuda.so over_verbs test_device
    else
        skip "device memory over verbs" "the build is not --with-cuda"
    fi
}

# a node that dies under a client that moves: the client ends with the right status
deaths() {
    local name test
    for test in sg_put sg_get; do
        name="peer killed in mid $test"
        node "$name" || continue
        if busy "$name" $test 3000; then
            kill -KILL "$node"
            ends "$name" 30 'peer|unreachable'
        fi
        kill_node
    done
}

# the same for a link that goes down; the rail is of no use after it
link_down() {
    local name="link down in mid sg_put"
    node "$name" || return
    if busy "$name" sg_put 3000; then
        ip link set va0 down
        ends "$name" 60 'rail'
    fi
    kill_node
}

fds_of_node() {
    local all=(/proc/"$node"/fd/*)
    echo ${#all[@]}
}

all_back() {
    stat=$(stat_of_node)
    [ "$(field leases "$stat")" = 0 ] && [ "$(field quarantined_slots "$stat")" = 0 ]
}

fds_back() { [ "$(fds_of_node)" -le $((fds + 4)) ]; }

# 20 clients die in mid put and mid get; the node lives on and gets every slot back
kills() {
    local name="20 clients killed in mid put and get" round test pids fds stat
    node "$name" || return
    stat_of_node >/dev/null
    fds=$(fds_of_node)
    for ((round = 0; round < 5; round++)); do
        pids=()
        for test in sg_put put sg_get get; do
            kvlane_perftest "$address" -t $test -s 65536:4 -n 100000 -b 4 -w 0 -q >/dev/null 2>&1 &
            pids+=($!)
        done
        sent 4000 || not_ok "$name" "round $round: the clients did not begin"
        kill -KILL "${pids[@]}"
        wait "${pids[@]}" 2>/dev/null
    done
    if ! until_ok 60 all_back; then
        not_ok "$name" "not all slots come back: $stat $(tail -2 /tmp/share/node.err)"
    elif ! until_ok 30 fds_back; then
        not_ok "$name" "the node had $fds file descriptors, now $(fds_of_node)"
    else
        ok "$name: the node lives, every slot is back"
    fi
    moves get 65536 16
    end_node "$name"
}

# finds NAME CODE PATTERN ARGUMENT...: the doctor ends with that code (a set of digits) and says that
finds() {
    local name="the doctor finds $1" code=$2 pattern=$3 rc=0
    shift 3
    timeout 150 kvlane_info --doctor "$@" -T 60 >/tmp/doctor.txt 2>/tmp/err.txt || rc=$?
    if [[ $rc == [$code] ]] && grep -qE "$pattern" /tmp/doctor.txt; then
        ok "$name: $(grep -m1 -E "$pattern" /tmp/doctor.txt | cut -c1-250)"
    else
        not_ok "$name" "exit $rc: $(tr '\n' ';' </tmp/doctor.txt | cut -c1-1500) $(tail -2 /tmp/err.txt | tr '\n' ' ')"
    fi
}

# on the rail that all use: a healthy session, a node whose interface had another MTU when it started; then on a
# second rail: a port that is down, a node on another fabric
doctor() {
    node "doctor" || return
    finds "a healthy session" 01 '^ok    transport rxe0:1 to .*gives rc_verbs' "$address"
    finds "every byte right" 01 '^ok    bandwidth rxe0:1 to .*every byte is right' "$address"
    finds "one mtu" 01 '^ok    mtu rxe0:1 to rxe0:1: 4200 at both ends' "$address"
    ip link set va0 mtu 1500
    finds "a small mtu" 12 '^warn  port rxe0:1: has mtu 1500: a packet carries 1024 bytes'
    finds "a wrong mtu" 2 '^fail  mtu rxe0:1 to rxe0:1: 1500 here, 4200 at the node' "$address"
    ip link set va0 mtu 4200
    end_node "doctor"
    rail 1
    KVLANE_RAILS=rxe1:1 node "doctor" -l 10.77.1.1:0 || return
    KVLANE_RAILS=rxe0:1 finds "a node on another fabric" 2 \
        '^fail  reach rxe0:1 to .*by va1, not by this rail: it is on another network' "$address"
    end_node "doctor"
    ip link set va1 down
    finds "a port that is down" 1 '^warn  port rxe1:1: is down.*ip link set'
    KVLANE_RAILS=rxe1:1 finds "a wanted port that is down" 2 '^fail  rails: .*rxe1:1 .*down'
    rdma link del rxe1
    ip link del va1
}

# limited BYTES COMMAND...: with that limit to locked memory, and without the right to pass it
limited() {
    local limit=$1
    shift
    prlimit --memlock="$limit" setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"
}

# how often the kernel was asked to pin memory for a device so far; "?" if it does not tell
pins() { awk '$1 == "kvl_pin" { n = $2 } END { print n == "" ? "?" : n }' /sys/kernel/tracing/kprobe_profile 2>/dev/null; }

pins_watch() {
    mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
    echo 'p:kvl_pin ib_umem_get' >/sys/kernel/tracing/kprobe_events &&
        echo 1 >/sys/kernel/tracing/events/kprobes/kvl_pin/enable
}

# refused NAME NEED COMMAND...: with 64 KiB it says so before anything is pinned; NEED: KiB
refused() {
    local name=$1 need=$2 before after out rc word
    shift 2
    before=$(pins)
    out=$(limited 65536 timeout 60 "$@" 2>&1)
    rc=$?
    after=$(pins)
    for word in "may lock 64 KiB" "has locked 0" "$need KiB more" "(process " "ulimit -l unlimited" limits.conf \
        LimitMEMLOCK=infinity "--ulimit memlock=-1"; do
        if [[ $out != *"$word"* ]]; then
            not_ok "$name" "exit $rc, no \"$word\" in: $out"
            return
        fi
    done
    if [ $rc != 1 ] || [ "$before" != "$after" ] || [[ $out == *ibv_reg_mr* ]]; then
        not_ok "$name" "exit $rc, pinned $before times before and $after after: $out"
    else
        ok "$name: named before the first pin ($after)"
    fi
}

# programs of kvlane under limited(), for those that find them in PATH
limited_path() {
    local program
    mkdir -p /tmp/limited
    for program in kvlaned kvlane_perftest; do
        printf '#!/bin/bash\nexec prlimit --memlock=%s setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock %s "$@"\n' \
            "$1" "$PREFIX/bin/$program" >/tmp/limited/$program
        chmod +x /tmp/limited/$program
    done
}

# KVLANE_RAILS=rdma: locked memory is asked about first; with enough of it all runs; others need none
memlock() {
    local name="memlock"
    if ! command -v prlimit setpriv >/dev/null; then
        skip "$name" "no prlimit or setpriv"
        return
    fi
    pins_watch || echo "note: the kernel does not count pins"
    if node "$name"; then
        refused "memlock of 64 KiB, client" 122880 kvlane_perftest "$address" -t put -s 65536 -n 4 -q
        end_node "$name"
    fi
    refused "memlock of 64 KiB, node" 122880 kvlaned -l 10.77.0.1:0 -m 96M
    limited_path $((256 << 20))
    if PATH=/tmp/limited:$PATH node "memlock of 256 MiB"; then
        PATH=/tmp/limited:$PATH moves put 65536 16
        end_node "memlock of 256 MiB"
    fi
    limited_path 65536
    if PATH=/tmp/limited:$PATH KVLANE_RAILS=tcp node "memlock of 64 KiB, tcp"; then
        if PATH=/tmp/limited:$PATH KVLANE_RAILS=tcp timeout 100 kvlane_perftest "$address" -t put -s 65536 -n 16 -q \
            >/tmp/out.txt 2>&1; then
            ok "memlock of 64 KiB is enough over tcp"
        else
            not_ok "memlock of 64 KiB is enough over tcp" "$(tail -3 /tmp/out.txt)"
        fi
        end_node "memlock of 64 KiB, tcp"
    fi
}

export KVLANE_RAILS=rdma
kvlane_info -v
if node "moves"; then
    moves_all
    info_names_verbs
    end_node "moves"
fi
conform
device
memlock
deaths
kills
doctor
link_down
