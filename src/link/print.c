/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "link/private.h"

#include <inttypes.h>

/* A link for kvl_engine_print(): what it is, its endpoints, and its pairs of rails. */

static void print_endpoints(const kvl_link_t *link, FILE *stream, int json)
{
    unsigned i;

    for (i = 0; i < link->line_count; i++) {
        const kvl_endpoint_t *e = &link->lines[i].endpoint;

        if (json) {
            fprintf(stream,
                    "%s{\"lane\": \"%s\", \"rail\": %u, \"index\": %u, \"window\": %u, "
                    "\"outstanding\": %u, \"ops\": %" PRIu64 ", \"bytes\": %" PRIu64
                    ", \"errors\": %" PRIu64 "}",
                    i ? ", " : "", kvl_lane_name(e->lane), e->rail, e->index, e->window,
                    e->outstanding, e->ops_done, e->bytes_done, e->errors);
        } else {
            fprintf(stream, "    %-5s rail %u index %-3u window %-4u ops %-10" PRIu64 " bytes %" PRIu64 "\n",
                    kvl_lane_name(e->lane), e->rail, e->index, e->window, e->ops_done, e->bytes_done);
        }
    }
}

/* what its endpoints of one lane did */
typedef struct {
    uint64_t ops, bytes, errors;
} lane_sum_t;

static lane_sum_t pair_sum(const kvl_pair_t *pair, kvl_lane_kind_t lane)
{
    lane_sum_t sum = {0};
    unsigned i;

    for (i = 1; i < pair->link->line_count; i++) {
        const kvl_endpoint_t *e = &pair->link->lines[i].endpoint;

        if (e->rail == pair->rail && e->lane == lane) {
            sum.ops += e->ops_done;
            sum.bytes += e->bytes_done;
            sum.errors += e->errors;
        }
    }
    return sum;
}

static unsigned pair_peer_mtu(const kvl_pair_t *pair)
{
    const kvl_link_t *link = pair->link;

    return pair->target < link->peer_rail_count ? link->peer_rails[pair->target].mtu : 0;
}

static void print_pair_json(const kvl_pair_t *pair, uint64_t retries, FILE *stream)
{
    char address[80];
    unsigned lane;

    fputs("{", stream);
    kvl_json_member("rail", kvl_pair_name(pair), ", ", stream);
    kvl_json_member("peer_rail", pair->target_name, ", ", stream);
    kvl_json_member("state", kvl_pair_state_name(pair->state), ", ", stream);
    kvl_json_member("health", kvl_health_name(pair->health.state), ", ", stream);
    kvl_json_member("cause", pair->cause, ", ", stream);
    kvl_addr_format((const struct sockaddr *)&pair->addr.storage, address, sizeof(address));
    kvl_json_member("peer_address", pair->addr.length ? address : "", ", ", stream);
    fprintf(stream, "\"peer_mtu\": %u, ", pair_peer_mtu(pair));
    fprintf(stream, "\"ups\": %" PRIu64 ", \"fails\": %" PRIu64 ", \"retries\": %" PRIu64 ", \"lanes\": {",
            pair->ups, pair->fails, retries);
    for (lane = KVL_LANE_DATA; lane < KVL_LANE_COUNT; lane++) {
        lane_sum_t sum = pair_sum(pair, (kvl_lane_kind_t)lane);

        fprintf(stream, "%s\"%s\": {\"ops\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"errors\": %" PRIu64 "}",
                lane == KVL_LANE_DATA ? "" : ", ", kvl_lane_name((kvl_lane_kind_t)lane), sum.ops, sum.bytes,
                sum.errors);
    }
    fputs("}}", stream);
}

static void print_pair_text(const kvl_pair_t *pair, uint64_t retries, FILE *stream)
{
    unsigned lane;

    fprintf(stream, "    %-12s to %-12s %s%s%s, up %" PRIu64 " times, failed %" PRIu64 ", moves started over %" PRIu64 "\n",
            kvl_pair_name(pair), pair->target_name, kvl_pair_state_name(pair->state), pair->cause[0] ? ": " : "",
            pair->cause, pair->ups, pair->fails, retries);
    for (lane = KVL_LANE_DATA; lane < KVL_LANE_COUNT; lane++) {
        lane_sum_t sum = pair_sum(pair, (kvl_lane_kind_t)lane);

        fprintf(stream, "      %-5s ops %-10" PRIu64 " bytes %-14" PRIu64 " errors %" PRIu64 "\n",
                kvl_lane_name((kvl_lane_kind_t)lane), sum.ops, sum.bytes, sum.errors);
    }
}

static void print_pairs(const kvl_link_t *link, FILE *stream, int json)
{
    unsigned i;

    fputs(json || !link->pair_count ? "" : "  rails\n", stream);
    for (i = 0; i < link->pair_count; i++) {
        uint64_t retries = link->mover ? kvl_mover_retries(link->mover, i) : 0;

        fputs(json && i ? ", " : "", stream);
        (json ? print_pair_json : print_pair_text)(&link->pairs[i], retries, stream);
    }
}

void kvl_link_print(kvl_printer_t *printer, FILE *stream, int json)
{
    const kvl_link_t *link = kvl_container(printer, kvl_link_t, printer);

    if (json) {
        fprintf(stream, "{\"link\": \"%s\", \"state\": \"%s\", ", link->address,
                kvl_link_state_name(link->state));
        kvl_json_member("node", link->terms.name, ", ", stream); /* a peer's text */
        fprintf(stream,
                "\"transport\": \"%s\", "
                "\"put_mode\": \"%s\", \"get_mode\": \"%s\", \"depth\": %u, \"data_depth\": %u, "
                "\"sg_endpoints\": %u, \"connects\": %" PRIu64 ", \"resets\": %" PRIu64
                ", \"protocol_errors\": %" PRIu64 ", \"endpoints\": [",
                link->info.transport, kvl_mode_name(link->put_mode), kvl_mode_name(link->get_mode),
                link->terms.depth, link->terms.data_depth, link->terms.sg_endpoints,
                link->connects, link->resets, link->protocol_errors);
        print_endpoints(link, stream, json);
        fprintf(stream, "], \"pairs\": [");
        print_pairs(link, stream, json);
        fprintf(stream, "]}");
        return;
    }
    fprintf(stream,
            "link %s\n  state        %s%s%s\n  node         %s\n  transport    %s (%s)\n"
            "  put mode     %s\n  get mode     %s\n  depth        %u in force (data %u, sg endpoints %u)\n"
            "  connects     %" PRIu64 ", resets %" PRIu64 ", protocol errors %" PRIu64 "\n  endpoints\n",
            link->address, kvl_link_state_name(link->state), link->cause[0] ? ": " : "", link->cause,
            link->terms.name, link->info.transport, link->info.detail, kvl_mode_name(link->put_mode),
            kvl_mode_name(link->get_mode), link->terms.depth, link->terms.data_depth,
            link->terms.sg_endpoints, link->connects, link->resets, link->protocol_errors);
    print_endpoints(link, stream, json);
    print_pairs(link, stream, json);
}
