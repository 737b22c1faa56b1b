/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "link/private.h"

/* From endpoints that were answered to a link that is up: how bytes move is chosen by the first pair, the
 * mover starts, and each pair is tested by itself, one after the other (selftest.c). */

/* Each endpoint is asked: it learns by that how it moves bytes best. The last one speaks for its pair. */
static kvl_status_t infos_ask(kvl_pair_t *pair)
{
    kvl_link_t *link    = pair->link;
    kvl_status_t status = KVL_OK;
    unsigned i;

    for (i = 0; status == KVL_OK && i <= link->terms.sg_endpoints; i++) {
        kvl_endpoint_t *endpoint = &link->lines[pair->first + i].endpoint;

        status                  = kvl_ep_info(endpoint->ep, &pair->info);
        endpoint->shared_memory = pair->info.shared_memory;
    }
    return status;
}

static bool keys_are_there(const kvl_link_t *link, unsigned rail)
{
    return link->region_count == 0 || link->regions[0].rkey_length[rail] > 0;
}

/* by the first pair that is there */
static kvl_status_t modes_choose(kvl_link_t *link, kvl_pair_t *pair)
{
    kvl_mode_policy_t policy = kvl_engine_settings(link->engine)->mode;
    kvl_status_t status      = kvl_ep_info(link->lines[0].endpoint.ep, &link->info);
    bool keys                = keys_are_there(link, pair->rail);

    link->lines[0].endpoint.shared_memory = status == KVL_OK && link->info.shared_memory;
    if (status == KVL_OK) {
        status = infos_ask(pair);
    }
    if (status != KVL_OK) {
        return status;
    }
    link->info = pair->info;
    if (policy == KVL_MODE_ONESIDED && !(link->info.put_onesided && link->info.get_onesided && keys)) {
        return kvl_error(KVL_ERR_UNSUPPORTED,
                         "KVLANE_MODE=onesided, but %s does not move %s by true RMA on UCX %s (%s); use "
                         "KVLANE_MODE=auto, or another transport by KVLANE_RAILS or KVLANE_UCX_TLS",
                         link->info.transport, link->info.put_onesided ? "gets" : "puts",
                         kvl_ucx_version(), link->info.detail);
    }
    link->put_mode = link->get_mode = KVL_MODE_IS_MESSAGE;
    if (policy != KVL_MODE_MESSAGE && keys) {
        link->put_mode = link->info.put_onesided ? KVL_MODE_IS_ONESIDED : KVL_MODE_IS_MESSAGE;
        link->get_mode = link->info.get_onesided ? KVL_MODE_IS_ONESIDED : KVL_MODE_IS_MESSAGE;
    }
    return KVL_OK;
}

bool kvl_pair_fits(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;
    bool keys        = keys_are_there(link, pair->rail);

    if (infos_ask(pair) != KVL_OK) {
        return false;
    }
    if (link->info.shared_memory != pair->info.shared_memory) {
        kvl_error(KVL_ERR_RAIL, "the peer is on this host: shared memory carries all");
        return false;
    }
    if ((link->put_mode == KVL_MODE_IS_ONESIDED && !(pair->info.put_onesided && keys)) ||
        (link->get_mode == KVL_MODE_IS_ONESIDED && !(pair->info.get_onesided && keys))) {
        kvl_error(KVL_ERR_RAIL, "%s does not move bytes by RMA, and the link's others do", pair->info.transport);
        return false;
    }
    return true;
}

kvl_status_t kvl_pair_unpack(kvl_pair_t *pair)
{
    kvl_link_t *link    = pair->link;
    kvl_status_t status = KVL_OK;
    unsigned i, j;

    for (i = 0; status == KVL_OK && i <= link->terms.sg_endpoints; i++) {
        for (j = 0; status == KVL_OK && j < link->region_count; j++) {
            if (link->regions[j].used) {
                status = kvl_link_unpack(link, &link->lines[pair->first + i].endpoint, &link->regions[j]);
            }
        }
    }
    return status;
}

static kvl_status_t mover_start(kvl_link_t *link)
{
    const kvl_settings_t *settings = kvl_engine_settings(link->engine);
    uint64_t speeds[KVL_RAILS_MAX] = {0};
    kvl_mover_params_t params      = {.depth       = link->terms.depth,
                                      .data_depth  = link->terms.data_depth,
                                      .chunk_bytes = link->terms.chunk_bytes < settings->chunk_bytes
                                                         ? link->terms.chunk_bytes
                                                         : settings->chunk_bytes,
                                      .put_mode    = link->put_mode,
                                      .get_mode    = link->get_mode,
                                      .gathers     = link->info.shared_memory,
                                      .ranges      = link->pair_count == 1 && link->info.header_max >= KVL_DATA_HEAD_MAX,
                                      .iov_is_fast = link->info.iov_is_fast,
                                      .pack_max    = settings->pack_max,
                                      .rail_count  = link->pair_count,
                                      .speeds_mbits = speeds,
                                      .stripe_min   = settings->stripe_min,
                                      .stages       = kvl_engine_stages(link->engine),
                                      .direct = link->info.device_memory ? kvl_engine_direct(link->engine) : NULL};
    kvl_status_t status;
    unsigned i;

    for (i = 0; i < link->pair_count; i++) {
        const kvl_rail_t *about = kvl_engine_rail(link->engine, i);

        speeds[i] = about ? about->speed_mbits : 0;
    }
    status = kvl_mover_create(&params, &link->mover);
    for (i = 1; status == KVL_OK && i < link->line_count; i++) {
        status = kvl_mover_add(link->mover, &link->lines[i].endpoint);
    }
    for (i = 0; status == KVL_OK && link->pair_count > 1 && i < link->pair_count; i++) {
        kvl_mover_rail_off(link->mover, i); /* until it was tested */
    }
    return status;
}

/* ---- from endpoints to a link that is up ---- */

static unsigned pairs_in(const kvl_link_t *link, kvl_pair_state_t first, kvl_pair_state_t last)
{
    unsigned i, n = 0;

    for (i = 0; i < link->pair_count; i++) {
        n += link->pairs[i].state >= first && link->pairs[i].state <= last;
    }
    return n;
}

static kvl_pair_t *pair_open(kvl_link_t *link)
{
    unsigned i;

    for (i = 0; i < link->pair_count; i++) {
        if (link->pairs[i].state == KVL_PAIR_OPEN && !link->pairs[i].failed) {
            return &link->pairs[i];
        }
    }
    return NULL;
}

/* all pairs answered or failed: the mover */
static kvl_status_t step_endpoints(kvl_link_t *link)
{
    kvl_pair_t *pair = pair_open(link);
    kvl_status_t status;

    if (pairs_in(link, KVL_PAIR_JOINING, KVL_PAIR_OPENING)) {
        return KVL_OK;
    }
    if (!pair) {
        return kvl_error(KVL_ERR_UNREACHABLE, "no rail carries: %s", kvl_pairs_cause(link));
    }
    status = modes_choose(link, pair);
    if (status == KVL_OK) {
        status = mover_start(link);
    }
    link->stage = KVL_STAGE_TEST;
    return status;
}

static kvl_status_t step_test(kvl_link_t *link)
{
    kvl_pair_t *pair = link->test.pair ? NULL : pair_open(link);
    kvl_status_t status;

    if (pairs_in(link, KVL_PAIR_TESTING, KVL_PAIR_TESTING)) {
        return KVL_OK;
    }
    if (!pair && pairs_in(link, KVL_PAIR_UP, KVL_PAIR_UP)) {
        kvl_link_set_up(link);
        return KVL_OK;
    }
    if (!pair) {
        return kvl_error(KVL_ERR_RAIL, "no rail passed: %s", kvl_pairs_cause(link));
    }
    if (link->several && !kvl_pair_fits(pair)) {
        kvl_pair_fail(pair, KVL_ERR_RAIL, kvl_error_text());
        return KVL_OK;
    }
    status = kvl_pair_unpack(pair);
    if (status != KVL_OK) {
        return status;
    }
    if (link->pair_count > 1) {
        kvl_mover_rail_ready(link->mover, pair->rail);
    }
    pair->state = KVL_PAIR_TESTING;
    kvl_link_test_start(link, pair);
    return KVL_OK;
}

void kvl_link_handshake_step(kvl_link_t *link)
{
    kvl_status_t status = KVL_OK;

    if (link->stage == KVL_STAGE_ENDPOINTS && link->line_count == 1) {
        status = kvl_pairs_open(link);
    } else if (link->stage == KVL_STAGE_ENDPOINTS) {
        status = step_endpoints(link);
    } else if (link->stage == KVL_STAGE_TEST) {
        status = step_test(link);
    }
    if (status != KVL_OK) {
        kvl_link_fail(link, status, "%s: %s", link->address, kvl_error_text());
    }
}
