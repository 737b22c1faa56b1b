/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/private.h"

#include <inttypes.h>

void kvl_node_fill_stat(const kvl_node_t *node, kvl_node_stat_t *stat_p)
{
    kvl_server_stats_t server;
    kvl_store_stats_t store;

    kvl_server_stats(node->server, &server);
    kvl_store_stats(node->store, &store);
    *stat_p = (kvl_node_stat_t){
        .keys              = store.keys,
        .bytes_used        = store.bytes_used,
        .bytes_total       = store.bytes_total,
        .sessions          = server.sessions,
        .leases            = store.leases,
        .quarantined_slots = store.quarantined,
        .evictions         = store.evictions,
        .refused_messages  = server.violations + server.rejected + store.refused + node->refused,
        .puts              = store.puts,
        .gets              = store.gets,
        .hits              = store.hits,
        .misses            = store.misses,
        .commits           = store.commits,
        .aborts            = store.aborts,
        .uptime_ms         = (uint64_t)((kvl_now_ns() - node->started_ns) / KVL_MS),
    };
}

void kvl_node_print(kvl_printer_t *printer, FILE *stream, int json)
{
    const kvl_node_t *node = kvl_container(printer, kvl_node_t, printer);
    kvl_node_stat_t s;

    kvl_node_fill_stat(node, &s);
    fprintf(stream,
            json ? "{\"node\": \"%s\", \"slabs\": %u, \"bytes_total\": %" PRIu64
                   ", \"bytes_used\": %" PRIu64 ", \"keys\": %" PRIu64 ", \"leases\": %" PRIu64
                   ", \"quarantined_slots\": %" PRIu64 ", \"evictions\": %" PRIu64
                   ", \"refused_messages\": %" PRIu64 ", \"puts\": %" PRIu64
                   ", \"commits\": %" PRIu64 ", \"aborts\": %" PRIu64 ", \"gets\": %" PRIu64
                   ", \"hits\": %" PRIu64 ", \"misses\": %" PRIu64 ", \"uptime_ms\": %" PRIu64 "}"
                 : "node %s\n  memory       %u slabs, %" PRIu64 " bytes, %" PRIu64
                   " used\n  values       %" PRIu64 " keys, %" PRIu64 " leases, %" PRIu64
                   " slots in quarantine, %" PRIu64 " evictions, %" PRIu64
                   " refused messages\n  puts         %" PRIu64 ", %" PRIu64 " commits, %" PRIu64
                   " aborts\n  gets         %" PRIu64 ", %" PRIu64 " hits, %" PRIu64
                   " misses\n  uptime       %" PRIu64 " ms\n",
            node->address, node->region_count, s.bytes_total, s.bytes_used, s.keys, s.leases,
            s.quarantined_slots, s.evictions, s.refused_messages, s.puts, s.commits, s.aborts,
            s.gets, s.hits, s.misses, s.uptime_ms);
}
