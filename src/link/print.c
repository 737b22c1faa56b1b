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
                    e->outstanding, e->counts.done, e->counts.bytes, kvl_op_counts_errors(&e->counts));
        } else {
            fprintf(stream, "    %-5s rail %u index %-3u window %-4u ops %-10" PRIu64 " bytes %" PRIu64 "\n",
                    kvl_lane_name(e->lane), e->rail, e->index, e->window, e->counts.done, e->counts.bytes);
        }
    }
}

static uint64_t lane_errors(const kvl_lane_stat_t *lane)
{
    return lane->errors_rail + lane->errors_peer + lane->errors_item + lane->errors_batch;
}

static void print_lane_json(const char *name, const kvl_lane_stat_t *lane, const char *end, FILE *stream)
{
    fprintf(stream,
            "\"%s\": {\"ops\": %" PRIu64 ", \"completions\": %" PRIu64 ", \"bytes\": %" PRIu64
            ", \"errors\": %" PRIu64 ", \"errors_rail\": %" PRIu64 ", \"errors_peer\": %" PRIu64
            ", \"errors_item\": %" PRIu64 ", \"errors_batch\": %" PRIu64 "}%s",
            name, lane->ops, lane->completions, lane->bytes, lane_errors(lane), lane->errors_rail, lane->errors_peer,
            lane->errors_item, lane->errors_batch, end);
}

static void print_lane_text(const char *name, const kvl_lane_stat_t *lane, FILE *stream)
{
    fprintf(stream, "      %-5s ops %-10" PRIu64 " bytes %-14" PRIu64 " errors %" PRIu64, name, lane->ops, lane->bytes,
            lane_errors(lane));
    if (lane_errors(lane)) {
        fprintf(stream, " (rail %" PRIu64 ", peer %" PRIu64 ", item %" PRIu64 ", given up %" PRIu64 ")",
                lane->errors_rail, lane->errors_peer, lane->errors_item, lane->errors_batch);
    }
    fputc('\n', stream);
}

static unsigned pair_peer_mtu(const kvl_pair_t *pair)
{
    const kvl_link_t *link = pair->link;

    return pair->target < link->peer_rail_count ? link->peer_rails[pair->target].mtu : 0;
}

static void print_pair_json(const kvl_pair_t *pair, const kvl_rail_stat_t *stat, FILE *stream)
{
    char address[80];

    fputs("{", stream);
    kvl_json_member("rail", stat->name, ", ", stream);
    kvl_json_member("peer_rail", stat->peer, ", ", stream);
    kvl_json_member("state", stat->state, ", ", stream);
    kvl_json_member("health", kvl_health_name(pair->health.state), ", ", stream);
    kvl_json_member("cause", pair->cause, ", ", stream);
    kvl_addr_format((const struct sockaddr *)&pair->addr.storage, address, sizeof(address));
    kvl_json_member("peer_address", pair->addr.length ? address : "", ", ", stream);
    fprintf(stream,
            "\"peer_mtu\": %u, \"ups\": %" PRIu64 ", \"fails\": %" PRIu64 ", \"retries\": %" PRIu64
            ", \"registrations\": %" PRIu64 ", \"lanes\": {",
            pair_peer_mtu(pair), stat->ups, stat->fails, stat->retries, stat->registrations);
    print_lane_json("ctrl", &stat->ctrl, ", ", stream);
    print_lane_json("data", &stat->data, ", ", stream);
    print_lane_json("sg", &stat->sg, "}}", stream);
}

static void print_pair_text(const kvl_pair_t *pair, const kvl_rail_stat_t *stat, FILE *stream)
{
    fprintf(stream,
            "    %-12s to %-12s %s%s%s, up %" PRIu64 " times, failed %" PRIu64 ", moves started over %" PRIu64
            ", registrations %" PRIu64 "\n",
            stat->name, stat->peer, stat->state, pair->cause[0] ? ": " : "", pair->cause, stat->ups, stat->fails,
            stat->retries, stat->registrations);
    print_lane_text("ctrl", &stat->ctrl, stream);
    print_lane_text("data", &stat->data, stream);
    print_lane_text("sg", &stat->sg, stream);
}

static void print_pairs(const kvl_link_t *link, FILE *stream, int json)
{
    unsigned i;

    fputs(json || !link->pair_count ? "" : "  rails\n", stream);
    for (i = 0; i < link->pair_count; i++) {
        kvl_rail_stat_t stat;

        kvl_link_rail_stat(link, i, &stat);
        fputs(json && i ? ", " : "", stream);
        (json ? print_pair_json : print_pair_text)(&link->pairs[i], &stat, stream);
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
