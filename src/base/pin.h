/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory this process keeps registered, over all its engines, and a limit to it at which work waits. */
#ifndef KVL_BASE_PIN_H
#define KVL_BASE_PIN_H

#include <kvlane/status.h>

#include <stdint.h>

/* Counts @a bytes more. Where that would pass @a limit (bytes; 0: none) it waits its turn until others gave enough
 * back, but not past @a until_ns. KVL_ERR_LIMIT: it is more than the limit, or the time is up; the text
 * names limit, need, use and the way out. Any thread; who holds up those that give back passes a time that is over. */
kvl_status_t kvl_pin_take(uint64_t bytes, uint64_t limit, int64_t until_ns);
void kvl_pin_give(uint64_t bytes);

uint64_t kvl_pin_used(void);
unsigned kvl_pin_waiting(void); /* threads */

#endif
