/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/mover.h"

const char *kvl_lane_name(kvl_lane_kind_t lane)
{
    static const char *const names[KVL_LANE_COUNT] = {"ctrl", "data", "sg"};

    return (unsigned)lane < KVL_LANE_COUNT ? names[lane] : "?";
}

const char *kvl_mode_name(kvl_mode_t mode)
{
    static const char *const names[] = {"none", "onesided", "message"};

    return (unsigned)mode < 3 ? names[mode] : "?";
}

kvl_lane_kind_t kvl_lane_choose(kvl_sg_policy_t policy, size_t segment_count, bool device_memory)
{
    if (device_memory && segment_count > 1) {
        return KVL_LANE_SG; /* distinct device ranges never overlap on one queue pair */
    }
    switch (policy) {
    case KVL_SG_ALWAYS:
        return KVL_LANE_SG;
    case KVL_SG_NEVER:
        return KVL_LANE_DATA;
    default:
        return segment_count > 1 ? KVL_LANE_SG : KVL_LANE_DATA;
    }
}

size_t kvl_pieces_merge(kvl_piece_t *pieces, size_t count)
{
    size_t last = 0, i;

    for (i = 1; i < count; i++) {
        kvl_piece_t *a = &pieces[last], *b = &pieces[i];

        if ((char *)a->address + a->length == (char *)b->address && a->mems == b->mems &&
            a->remote_offset + a->length == b->remote_offset) {
            a->length += b->length;
        } else {
            pieces[++last] = *b;
        }
    }
    return count ? last + 1 : 0;
}
