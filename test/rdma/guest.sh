#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC1091
# Runs in the guest: makes the rails, then the tests of tests.sh, which use the functions below; a line for
# each test, at the end their number. From env.sh beside it: PREFIX (where kvlane is installed), TESTS (a
# folder of test programs), RAILS (how many). Every wait here has a limit.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. /tmp/share/env.sh
export PATH=$PREFIX/bin:$PATH LD_LIBRARY_PATH=$PREFIX/lib HOME=/tmp LC_ALL=C
export UCX_MEM_MMAP_HOOK_MODE=none UCX_WARN_UNUSED_ENV_VARS=n
# ten endpoints take their time under emulation on a busy machine
export KVLANE_CONNECT_TIMEOUT=60s KVLANE_TIMEOUT=20s
passed=0 failed=0 skipped=0

ok() {
    echo "ok $1"
    passed=$((passed + 1))
}

not_ok() {
    echo "not ok $1: ${2:-}"
    failed=$((failed + 1))
}

skip() {
    echo "ok $1 # skipped: $2"
    skipped=$((skipped + 1))
}

# rail N: a veth pair vaN-vbN with the soft-RoCE device rxeN on the end vaN, which has address 10.77.N.1.
# No address detection, or the first GIDs are late.
rail() {
    sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
    ip link add "va$1" type veth peer name "vb$1"
    ip addr add "10.77.$1.1/24" dev "va$1"
    ip addr add "10.77.$1.2/24" dev "vb$1"
    ip -6 addr add "fd77:$1::1/64" dev "va$1" nodad
    ip link set "va$1" mtu 4200 up
    ip link set "vb$1" mtu 4200 up
    rdma link add "rxe$1" type rxe netdev "va$1"
}

# field NAME JSON: the last value of that name
field() { sed -n "s/.*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$2" | tail -1; }

# until SECONDS COMMAND...: repeats it until it succeeds
until_ok() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1 # polls another process: nothing to wait on
    done
}

# ended PID SECONDS: it ended by itself in that time; if not it is killed
ended() {
    if timeout "$2" tail --pid="$1" -f /dev/null; then return 0; fi
    kill -KILL "$1" 2>/dev/null
    return 1
}

node_ready() {
    address=$(sed -n 's/^ready //p' /tmp/node.out)
    [ -n "$address" ] || ! kill -0 "$node" 2>/dev/null
}

# node NAME [ARGUMENT...]: starts kvlaned; sets $node (its process) and $address. Else test NAME fails.
node() {
    local name=$1
    shift
    kvlaned -l 10.77.0.1:0 -m 96M "$@" >/tmp/node.out 2>>/tmp/share/node.err &
    node=$!
    if until_ok 60 node_ready && [ -n "$address" ]; then return 0; fi
    not_ok "$name" "the node did not start: $(tail -2 /tmp/share/node.err | tr '\n' ' ')"
    kill -KILL "$node" 2>/dev/null
    return 1
}

# end_node NAME: SIGTERM ends it, with 0
end_node() {
    local rc
    kill -TERM "$node" 2>/dev/null
    if ! ended "$node" 30; then
        not_ok "$1" "the node is still there 30 s after SIGTERM"
        return
    fi
    wait "$node"
    rc=$?
    [ $rc = 0 ] || not_ok "$1" "the node ended with $rc: $(tail -2 /tmp/share/node.err | tr '\n' ' ')"
}

kill_node() {
    kill -KILL "$node" 2>/dev/null
    wait "$node" 2>/dev/null
}

stat_of_node() { timeout 70 kvlane -s "$address" -J stat 2>/dev/null; }

# moves TEST SIZE ITEMS [MODE]: moved in that mode (onesided) over verbs, every byte verified
moves() {
    local out name="$1 $2 ${4:-onesided}"
    out=$(KVLANE_MODE=${4:-auto} timeout 150 kvlane_perftest "$address" -t "$1" -s "$2" -n "$3" -w 2 -b 4 -J \
        2>/tmp/err.txt | tail -1)
    if [ "$(field wrong_bytes "$out")" = 0 ] && [ "$(field mode "$out")" = "${4:-onesided}" ] &&
        [[ $(field transport "$out") == *rc_verbs* ]] && [ "$(field verified_bytes "$out")" -gt 0 ]; then
        ok "$name: $(field transport "$out"), $(field verified_bytes "$out") bytes verified"
    else
        not_ok "$name" "$out $(grep -v note: /tmp/err.txt | tail -3 | tr '\n' ' ')"
    fi
}

packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }

packets_past() { [ "$(packets)" -ge "$1" ]; }

# sent N: waits until that many more packets have left the rail's device
sent() { until_ok 90 packets_past $(($(packets) + $1)); }

# busy NAME TEST PACKETS: a client that moves for long; returns when it has sent so much. Sets $client.
# Else test NAME fails.
busy() {
    kvlane_perftest "$address" -t "$2" -s 65536:16 -n 100000 -b 4 -w 0 -q -J >/tmp/client.out 2>/tmp/err.txt &
    client=$!
    if sent "$3"; then return 0; fi
    not_ok "$1" "the client did not begin: $(grep -v note: /tmp/err.txt | tail -2 | tr '\n' ' ')"
    kill -KILL $client
    wait "$client" 2>/dev/null
    return 1
}

# ends NAME SECONDS STATUS: $client ends by itself in that time, with exit code 1 and a message that
# carries one of the statuses ("peer|unreachable")
ends() {
    local begin=$SECONDS said rc
    if ! ended "$client" "$2"; then
        not_ok "$1" "the client hangs for $2 s"
        return
    fi
    wait "$client"
    rc=$?
    said=$(grep -v note: /tmp/err.txt | grep -iE "^kvlane_perftest: .*($3)" | tail -1 | cut -c1-150)
    if [ $rc = 1 ] && [ -n "$said" ]; then
        ok "$1: after $((SECONDS - begin)) s, $said"
    else
        not_ok "$1" "exit $rc: $(tail -3 /tmp/err.txt | tr '\n' ' ')"
    fi
}

for ((i = 0; i < ${RAILS:-1}; i++)); do rail $i; done
. /tmp/share/tests.sh
echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ $failed = 0 ]
