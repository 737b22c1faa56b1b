/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "node/private.h"

/* Clients come and go, and their data ops: what the server asks of a node. A data op names a lease; the
 * store knows whether it is this client's, and counts ops so that no slot is used again before UCX is
 * done with it. */

static kvl_client_t *client_of(kvl_session_t *session)
{
    return kvl_session_data(session);
}

void kvl_client_free(kvl_client_t *client)
{
    kvl_list_remove(&client->link);
    kvl_list_remove(&client->answering);
    kvl_scratch_put(&client->node->scratch, client->scratch);
    kvl_free(client);
}

/* ---- coming ---- */

static kvl_status_t node_hello(void *arg, kvl_session_t *session, const kvl_hello_t *hello,
                               kvl_hello_ok_t *terms)
{
    kvl_node_t *node = arg;
    kvl_client_t *client;

    if (hello->transport) {
        return kvl_error(KVL_ERR_REFUSED,
                         "this is a cache node; an engine to engine peer is reached at "
                         "its own listener's address");
    }
    if (node->draining) {
        return kvl_error(KVL_ERR_REFUSED, "the node is draining");
    }
    client = kvl_calloc(1, sizeof(*client));
    if (!client) {
        return kvl_error(KVL_ERR_NO_MEMORY, "the node is out of memory");
    }
    client->node    = node;
    client->session = session;
    kvl_holder_init(&client->holder, node->store);
    kvl_list_push_back(&node->clients, &client->link);
    kvl_list_init(&client->answering);
    client->scratch  = kvl_scratch_take(&node->scratch, terms);
    terms->value_max = kvl_store_value_max(node->store);
    kvl_session_set_data(session, client);
    return KVL_OK;
}

static size_t node_regions(void *arg, kvl_session_t *session, kvl_region_t **regions, size_t max)
{
    const kvl_node_t *node = arg;
    unsigned i;

    (void)session;
    for (i = 0; i < node->region_count && i < max; i++) {
        regions[i] = node->regions[i];
    }
    if (node->scratch.region && i < max) {
        regions[i++] = node->scratch.region;
    }
    return i;
}

static void *node_scratch(void *arg, kvl_session_t *session, size_t *length_p)
{
    const kvl_node_t *node = arg;

    return kvl_scratch_address(&node->scratch, client_of(session)->scratch, length_p);
}

/* ---- data ops ---- */

typedef kvl_status_t (*begin_func_t)(kvl_holder_t *holder, const kvl_store_op_t *op,
                                     kvl_lease_t **lease_p, kvl_grant_t *place_p);

static kvl_status_t client_op(kvl_client_t *client, const kvl_endpoint_t *endpoint,
                              const kvl_data_head_t *head, begin_func_t begin, kvl_target_t *target)
{
    kvl_store_op_t op = {head->token, head->generation, head->offset, head->length};
    kvl_grant_t place;
    kvl_lease_t *lease;
    kvl_status_t status;

    if (head->scope != 0) { /* regions are reached through leases only */
        client->node->refused++;
        return KVL_ERR_RANGE;
    }
    status = begin(&client->holder, &op, &lease, &place);
    if (status == KVL_OK) {
        *target = (kvl_target_t){.address = place.address,
                                 .length  = (size_t)head->length,
                                 .mem     = kvl_region_mem(client->node->regions[place.slab], endpoint->rail,
                                                           place.address, (size_t)head->length),
                                 .cookie  = lease};
    }
    return status;
}

static kvl_status_t node_put(void *arg, kvl_session_t *session, const kvl_endpoint_t *endpoint,
                             const kvl_data_head_t *head, kvl_target_t *target)
{
    (void)arg;
    client_of(session)->holder.repeats = kvl_session_repeats(session);
    return client_op(client_of(session), endpoint, head, kvl_store_put_begin, target);
}

static void node_put_done(void *arg, kvl_session_t *session, const kvl_data_head_t *head,
                          void *cookie, kvl_status_t status)
{
    (void)arg;
    if (client_of(session)->holder.repeats && status != KVL_ERR_NO_MEMORY) {
        if (status == KVL_OK) {
            kvl_store_put_landed(cookie, head->offset, head->length);
        }
        status = KVL_OK; /* else its rail failed, and they come again over another */
    }
    /* why its bytes were lost is the connection's matter; the item's is that they are not there */
    kvl_store_put_end(cookie, status == KVL_OK ? KVL_OK : KVL_ERR_LEASE);
}

static kvl_status_t node_get(void *arg, kvl_session_t *session, const kvl_endpoint_t *endpoint,
                             const kvl_data_head_t *head, kvl_target_t *target)
{
    (void)arg;
    return client_op(client_of(session), endpoint, head, kvl_store_get_begin, target);
}

static void node_get_done(void *arg, kvl_session_t *session, const kvl_data_head_t *head,
                          void *cookie, kvl_status_t status)
{
    (void)arg;
    (void)session;
    (void)head;
    (void)status;
    kvl_store_get_end(cookie);
}

/* ---- going ---- */

static void node_closing(void *arg, kvl_session_t *session)
{
    kvl_client_t *client = client_of(session);

    (void)arg;
    kvl_holder_stop(&client->holder);
    kvl_list_remove(&client->answering);
}

static void node_closed(void *arg, kvl_session_t *session, bool quiet)
{
    kvl_client_t *client = client_of(session);
    kvl_node_t *node     = arg;

    kvl_holder_close(&client->holder, quiet);
    if (quiet) {
        kvl_client_free(client);
    }
    kvl_node_arm(node);
}

static void node_quiet(void *arg, kvl_session_t *session)
{
    kvl_client_t *client = client_of(session);

    (void)arg;
    kvl_holder_quiet(&client->holder);
    kvl_client_free(client);
}

const kvl_server_ops_t kvl_node_server_ops = {
    .hello    = node_hello,
    .regions  = node_regions,
    .scratch  = node_scratch,
    .message  = kvl_node_message,
    .put      = node_put,
    .put_done = node_put_done,
    .get      = node_get,
    .get_done = node_get_done,
    .closing  = node_closing,
    .closed   = node_closed,
    .quiet    = node_quiet,
};
