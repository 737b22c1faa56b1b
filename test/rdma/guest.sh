#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: one soft-RoCE rail on a veth, then kvlane over rc_verbs. A line for each test.
# Environment comes from env.sh beside it: PREFIX (where kvlane is installed).
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. /tmp/share/env.sh
export PATH=$PREFIX/bin:$PATH LD_LIBRARY_PATH=$PREFIX/lib HOME=/tmp
export UCX_MEM_MMAP_HOOK_MODE=none UCX_WARN_UNUSED_ENV_VARS=n
# ten endpoints take their time under emulation on a busy machine
export KVLANE_CONNECT_TIMEOUT=60s KVLANE_TIMEOUT=20s
passed=0 failed=0

ok() { echo "ok $1"; passed=$((passed + 1)); }
not_ok() { echo "not ok $1: $2"; failed=$((failed + 1)); }

rail() { # one veth pair with a soft-RoCE device on one end; no address detection, or GID 0 is late
    sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
    ip link add va0 type veth peer name vb0
    ip addr add 10.77.0.1/24 dev va0
    ip addr add 10.77.0.2/24 dev vb0
    ip -6 addr add fd77::1/64 dev va0 nodad
    ip link set va0 mtu 4200 up
    ip link set vb0 mtu 4200 up
    rdma link add rxe0 type rxe netdev va0
}

field() { sed -n "s/.*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$2" | tail -1; }

# node NAME: starts kvlaned and waits for its line
node() {
    kvlaned -l "10.77.0.1:${port:-0}" -m "${memory:-96M}" >/tmp/node.out 2>/tmp/node.err &
    node=$!
    for _ in $(seq 600); do
        address=$(sed -n 's/^ready //p' /tmp/node.out)
        [ -n "$address" ] && return 0
        kill -0 $node 2>/dev/null || break
        sleep 0.1 # polls a process's output: nothing to wait on
    done
    not_ok "$1" "the node did not start: $(tail -2 /tmp/node.err | tr '\n' ' ')"
    return 1
}

end_node() {
    kill -TERM $node 2>/dev/null
    timeout 30 tail --pid=$node -f /dev/null || kill -9 $node
    wait $node 2>/dev/null
}

# moves TEST SIZE ITEMS: verified, onesided, on rc_verbs
moves() {
    local out
    out=$(timeout 120 kvlane_perftest "$address" -t "$1" -s "$2" -n "$3" -w 2 -b 4 -J 2>/tmp/err.txt | tail -1)
    if [ "$(field wrong_bytes "$out")" = 0 ] && [ "$(field mode "$out")" = onesided ] &&
        [[ $(field transport "$out") == *rc_verbs* ]] && [ "$(field verified_bytes "$out")" -gt 0 ]; then
        ok "$1 $2: $(field transport "$out") $(field mode "$out"), $(field verified_bytes "$out") bytes verified"
    else
        not_ok "$1 $2" "$out $(tail -3 /tmp/err.txt | tr '\n' ' ')"
    fi
}

# ends TEST WHAT: a client under way ends by itself, exits 1 and says TEXT
ends() { # NAME PID LIMIT PATTERN
    if ! timeout "$3" tail --pid="$2" -f /dev/null; then
        kill -9 "$2"
        not_ok "$1" "the client still hangs after $3 s"
        return
    fi
    wait "$2"
    local rc=$?
    local said
    said=$(grep -v 'note:' /tmp/err.txt | grep -iE "^kvlane_perftest: .*($4)" | tail -1 | cut -c1-150)
    if [ $rc = 1 ] && [ -n "$said" ]; then
        ok "$1: exit 1, $said"
    else
        not_ok "$1" "exit $rc: $(tail -3 /tmp/err.txt | tr '\n' ' ')"
    fi
}

packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }

# sent N: waits until that many packets more than now have crossed the rail (bounded)
sent() {
    local goal=$(($(packets) + $1))
    for _ in $(seq 600); do
        [ "$(packets)" -ge "$goal" ] && return 0
        sleep 0.1 # polls a counter of the device
    done
    return 1
}

busy_client() { # TEST: a client that moves for a long time; returns when bytes flow
    kvlane_perftest "$address" -t "$1" -s 65536:16 -n 100000 -b 4 -w 0 -q -J >/tmp/client.out 2>/tmp/err.txt &
    client=$!
    sent 3000
}

rail
# the guest sees only its own devices; tcp carries the connection manager
export KVLANE_UCX_TLS=rc_verbs,tcp KVLANE_UCX_NET_DEVICES=rxe0:1,va0 KVLANE_UCX_IB_GID_INDEX=1
kvlane_info -v

if node "moves"; then
    for test in put get; do
        moves $test 4296 40
        moves $test 1048576 12
    done
    for test in sg_put sg_get; do
        moves $test 4296:61 24
    done
    if kvlane_info -s "$address" >/tmp/info.txt 2>&1 && grep -q rc_verbs /tmp/info.txt; then
        ok "kvlane_info shows the session on rc_verbs"
    else
        not_ok "kvlane_info" "$(tail -3 /tmp/info.txt | tr '\n' ' ')"
    fi
    end_node
fi

if node "peer killed"; then
    busy_client sg_put || not_ok "peer killed" "no traffic"
    kill -9 $node
    ends "peer killed in mid put" $client 30 'peer|unreachable|connection'
    wait $node 2>/dev/null
fi

if node "link down"; then
    busy_client sg_put || not_ok "link down" "no traffic"
    ip link set va0 down
    ends "link down in mid put" $client 60 'rail|peer|unreachable|timeout|deadline|connection'
    kill -9 $node
    wait $node 2>/dev/null
    ip link set va0 up
fi

# 20 clients die in mid put and mid get; the node lives and gets every slot back
if node "kills"; then
    clients=0
    for round in $(seq 5); do
        pids=()
        for test in sg_put put sg_get get; do
            kvlane_perftest "$address" -t $test -s 65536:4 -n 100000 -b 4 -w 0 -q >/dev/null 2>&1 &
            pids+=($!)
        done
        sent 4000
        kill -9 "${pids[@]}"
        wait "${pids[@]}" 2>/dev/null
        clients=$((clients + 4))
    done
    for _ in $(seq 20); do
        stat=$(kvlane -J -s "$address" stat 2>/dev/null)
        [ "$(field leases "$stat")" = 0 ] && [ "$(field quarantined_slots "$stat")" = 0 ] && break
        sleep 1
    done
    if kill -0 $node && [ "$(field leases "$stat")" = 0 ] && [ "$(field quarantined_slots "$stat")" = 0 ]; then
        ok "$clients clients killed in mid put and get: the node lives, every slot is back"
    else
        not_ok "$clients clients killed" "$stat $(tail -2 /tmp/node.err)"
    fi
    moves get 65536 16
    end_node
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
