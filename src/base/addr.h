/* SPDX-License-Identifier: BSD-3-Clause */
/* "host:port" to sockaddr and back, and the network device that reaches an address. */
#ifndef KVL_BASE_ADDR_H
#define KVL_BASE_ADDR_H

#include <kvlane/status.h>

#include <netinet/in.h>
#include <sys/socket.h>

typedef struct {
    struct sockaddr_storage storage;
    socklen_t length;
} kvl_addr_t;

/* "10.0.0.7:7700", "[::1]:7700", "name:7700"; *:0 and ":7700" mean any address.
 * KVL_ERR_INVALID names the text and what is wrong. Resolving names may block. */
kvl_status_t kvl_addr_parse(const char *text, kvl_addr_t *addr_p);
void kvl_addr_format(const struct sockaddr *addr, char *text, size_t size);
/* Name of the device whose address is @a addr, or that the kernel would send from to reach it.
 * KVL_ERR_NOT_FOUND for any-addresses and unroutable ones. */
kvl_status_t kvl_addr_device(const kvl_addr_t *addr, char *device, size_t size);

#endif
