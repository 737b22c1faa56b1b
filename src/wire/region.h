/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/wire: the record of a region, the same in HELLO_OK and in an exported blob. */
#ifndef KVL_WIRE_REGION_H
#define KVL_WIRE_REGION_H

#include "wire/cursor.h"

size_t kvl_wr_region_size(const kvl_wire_region_t *m);
void kvl_wr_region(kvl_wbuf_t *w, const kvl_wire_region_t *m);
void kvl_rd_region(kvl_rbuf_t *r, kvl_wire_region_t *m);

#endif
