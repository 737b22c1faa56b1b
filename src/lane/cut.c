/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/sched.h"

/* Where an op ends, and how its bytes travel. */

/* UCX copies an IOV in small steps where it would send one buffer whole: pieces up to this size gain by
 * a copy of our own. CPU seconds per GB of both sides over tcp, packed and as they lie: 0.33 and 0.6 for
 * 1 KiB, 0.37 and 0.38 for 4 KiB, 0.5 and 0.31 for 16 KiB on UCX 1.13.1; 0.32 and 1.8, 0.42 and 1.0,
 * 0.35 and 0.36 on 1.22 */
#define PACK_SLOW_IOV (8u << 10)

/* Several rails: ops up to this length are packed, since an IOV would go by rendezvous: a round trip more for
 * each, behind whatever is in the rail's queue. 64 KiB in 16 pieces over four rails of 200 Mbit/s: 37 MB/s as
 * they lie, 94 packed. */
#define PACK_RAILS (128u << 10)

/* Pieces up to this size travel several in one op, of at most KVL_WIRE_RANGES_LENGTH, wherever they go there. */
#define RANGE_BYTES (16u << 10)

/* most bytes that an op at this remote offset may have */
static uint64_t cut_limit(const kvl_move_t *move, kvl_mode_t mode, uint64_t chunk, uint64_t offset)
{
    uint64_t slice_bytes = move->remote ? move->remote->slice_bytes : 0;

    if (mode != KVL_MODE_IS_ONESIDED && move->scope == 0) {
        chunk -= (offset - move->value_offset) % chunk; /* the target counts whole chunks */
    }
    if (slice_bytes && slice_bytes - offset % slice_bytes < chunk) {
        chunk = slice_bytes - offset % slice_bytes;
    }
    return chunk;
}

/* slices are the same on every rail */
static const kvl_mem_t *piece_mem(const kvl_piece_t *piece)
{
    return piece->mems ? piece->mems[0] : NULL;
}

/* may the op that ends where @a last ends go on with @a next? */
static bool cut_continues(const kvl_piece_t *last, const kvl_piece_t *next, bool gather)
{
    if (last->remote_offset + last->length != next->remote_offset) {
        return false;
    }
    return gather ||
           ((char *)last->address + last->length == (char *)next->address &&
            last->mems == next->mems);
}

void kvl_cut_next(const kvl_move_t *move, kvl_mode_t mode, bool gather, uint64_t chunk_bytes,
                  kvl_cut_t *cut)
{
    const kvl_piece_t *piece = &move->pieces[move->piece];
    uint64_t limit;

    *cut  = (kvl_cut_t){.remote_offset = piece->remote_offset + move->piece_at,
                        .piece         = move->piece,
                        .piece_at      = move->piece_at};
    limit = cut_limit(move, mode, chunk_bytes, cut->remote_offset);
    for (;;) {
        size_t left  = piece->length - cut->piece_at;
        size_t slice = kvl_mem_left(piece_mem(piece), (char *)piece->address + cut->piece_at);
        size_t most  = limit - cut->length < slice ? (size_t)(limit - cut->length) : slice;

        cut->count++;
        if (left > most) {
            cut->piece_at += most;
            cut->length += most;
            return;
        }
        cut->length += left;
        cut->piece_at = 0;
        cut->piece++;
        if (cut->piece == move->piece_count || left == most ||
            !cut_continues(piece, piece + 1, gather)) {
            return;
        }
        piece++;
    }
}

void kvl_cut_ranges(const kvl_move_t *move, kvl_cut_t *cut)
{
    size_t i = move->piece, length = 0;

    if (move->piece_at || cut->length > RANGE_BYTES) {
        return;
    }
    for (; i < move->piece_count && i - move->piece < KVL_WIRE_RANGES_MAX; i++) {
        const kvl_piece_t *piece = &move->pieces[i];

        if (piece->length > RANGE_BYTES || length + piece->length > KVL_WIRE_RANGES_LENGTH ||
            piece->length > kvl_mem_left(piece_mem(piece), piece->address)) {
            break;
        }
        length += piece->length;
    }
    if (i - move->piece > 1 && length > cut->length) {
        *cut = (kvl_cut_t){.count  = i - move->piece,
                           .length = length,
                           .piece  = i,
                           .ranges = (unsigned)(i - move->piece)};
    }
}

kvl_carry_t kvl_cut_carry(const kvl_mover_params_t *params, kvl_move_dir_t dir,
                          const kvl_cut_t *cut, const kvl_mem_t *mem)
{
    uint64_t pack_max = params->pack_max;

    if (dir == KVL_MOVE_GET && params->recv_bounce) {
        return KVL_CARRY_PACK;
    }
    if (cut->count == 1) {
        return KVL_CARRY_STRAIGHT;
    }
    /* UCX 1.22 never ends a rendezvous of registered memory that a forced close aborts, unless it was
     * given the registration: there must be one that covers all pieces */
    if (cut->count > KVL_IOV_MAX || !mem) {
        return KVL_CARRY_PACK;
    }
    if (dir == KVL_MOVE_GET) {
        return KVL_CARRY_IOV; /* unpacked piece by piece either way: a bounce is one copy more */
    }
    if (pack_max == KVL_PACK_AUTO && params->rail_count > 1 && cut->length <= PACK_RAILS) {
        return KVL_CARRY_PACK;
    }
    if (pack_max == KVL_PACK_AUTO) {
        pack_max = params->iov_is_fast ? 0 : PACK_SLOW_IOV;
    }
    return cut->length / cut->count <= pack_max ? KVL_CARRY_PACK : KVL_CARRY_IOV;
}

void kvl_cut_iov(const kvl_move_t *move, const kvl_cut_t *cut, kvl_iov_t *iov)
{
    const kvl_piece_t *piece = &move->pieces[move->piece];
    size_t at = move->piece_at, left = cut->length, i;

    for (i = 0; i < cut->count; i++, piece++, at = 0) {
        size_t length = piece->length - at < left ? piece->length - at : left;

        iov[i] = (kvl_iov_t){(char *)piece->address + at, length};
        left -= length;
    }
}

const kvl_mem_t *kvl_cut_mem(const kvl_move_t *move, const kvl_cut_t *cut, unsigned rail)
{
    const kvl_piece_t *piece = &move->pieces[move->piece];
    kvl_mem_t *const *mems   = piece->mems;
    const kvl_mem_t *mem     = piece_mem(piece);
    unsigned slice           = kvl_mem_slice_of(mem, (char *)piece->address + move->piece_at);
    size_t i;

    for (i = 1; i < cut->count; i++) {
        if (piece[i].mems != mems || kvl_mem_slice_of(mem, piece[i].address) != slice) {
            return NULL;
        }
    }
    return mems ? mems[rail] : NULL;
}
