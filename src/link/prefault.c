/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/private.h"

/* Over shared memory each endpoint has a mapping of its own of the peer's regions. A link that is up
 * fills them, up to a bound, since page tables cost memory too (2 MiB a GiB). The filling is over before
 * the first key is destroyed. */

#define FILL_MAX (UINT64_C(32) << 30)

static void prefault_slice(kvl_link_t *link, const kvl_link_region_t *slice)
{
    const kvl_remote_region_t *region = &slice->region;
    unsigned line;

    for (line = 1; line < link->line_count; line++) { /* line 0 is ctrl, which has no keys */
        kvl_endpoint_t *endpoint = &link->lines[line].endpoint;
        void *address;

        if (region->slot < endpoint->rkey_count && endpoint->rkeys[region->slot] &&
            kvl_rkey_pointer(endpoint->rkeys[region->slot], region->base[endpoint->rail], &address) ==
                KVL_OK &&
            !((uintptr_t)address & 4095)) {
            kvl_fill_add(&link->fill, address, slice->slice_length);
        }
    }
}

void kvl_link_prefault(kvl_link_t *link)
{
    unsigned i;

    if (!link->info.shared_memory || link->put_mode != KVL_MODE_IS_ONESIDED) {
        return;
    }
    link->fill.max_bytes = FILL_MAX;
    for (i = 0; i < link->region_count; i++) {
        prefault_slice(link, &link->regions[i]);
    }
    kvl_fill_start(&link->fill);
}
