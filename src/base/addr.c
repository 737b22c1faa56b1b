/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/addr.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ADDR_HOST_SIZE 256

static bool addr_port(const char *text, uint16_t *port_p)
{
    unsigned port = 0;
    size_t i;

    for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 5; i++) {
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    *port_p = (uint16_t)port;
    return i > 0 && text[i] == '\0' && port <= UINT16_MAX;
}

static kvl_status_t addr_invalid(const char *text, const char *why)
{
    return kvl_error(KVL_ERR_INVALID, "address '%s': %s; accepted: HOST:PORT, [IPV6]:PORT, *:PORT",
                     text, why);
}

/* cuts "[host]:port" or "host:port" in two */
static kvl_status_t addr_split(const char *text, char *host, const char **port_p)
{
    const char *colon = strrchr(text, ':');
    size_t length;

    if (!colon) {
        return addr_invalid(text, "no port");
    }
    length = (size_t)(colon - text);
    if (length >= ADDR_HOST_SIZE) {
        return addr_invalid(text, "too long");
    }
    if (*text == '[') {
        if (length < 3 || colon[-1] != ']') {
            return addr_invalid(text, "bracket without its pair or without a port");
        }
        text++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return addr_invalid(text, "an ipv6 address needs brackets");
    }
    memcpy(host, text, length);
    host[length] = '\0';
    *port_p      = colon + 1;
    return KVL_OK;
}

static void addr_set_port(kvl_addr_t *addr, uint16_t port)
{
    if (addr->storage.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&addr->storage)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)&addr->storage)->sin_port = htons(port);
    }
}

/* A name may have addresses of both families and we keep one. IPv4 first: a listener on any address
 * is an IPv4 one, and "localhost" must reach it. */
static const struct addrinfo *addr_pick(const struct addrinfo *list)
{
    const struct addrinfo *ai;

    for (ai = list; ai; ai = ai->ai_next) {
        if (ai->ai_family == AF_INET) {
            return ai;
        }
    }
    return list;
}

static kvl_status_t addr_resolve(const char *text, const char *host, kvl_addr_t *addr)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    const struct addrinfo *ai;
    int rc = getaddrinfo(host, NULL, &hints, &list);

    if (rc != 0) {
        return kvl_error(KVL_ERR_UNREACHABLE, "address '%s': host %s: %s", text, host, gai_strerror(rc));
    }
    ai = addr_pick(list);
    memcpy(&addr->storage, ai->ai_addr, ai->ai_addrlen);
    addr->length = ai->ai_addrlen;
    freeaddrinfo(list);
    return KVL_OK;
}

kvl_status_t kvl_addr_parse(const char *text, kvl_addr_t *addr_p)
{
    char host[ADDR_HOST_SIZE];
    kvl_addr_t addr = {.storage = {.ss_family = AF_INET}, .length = sizeof(struct sockaddr_in)};
    const char *port_text = "";
    uint16_t port;
    kvl_status_t st;

    if (!text) {
        return kvl_error(KVL_ERR_INVALID, "address: NULL; accepted: HOST:PORT");
    }
    st = addr_split(text, host, &port_text);
    if (st == KVL_OK && !addr_port(port_text, &port)) {
        st = addr_invalid(text, "the port is not a number from 0 to 65535");
    }
    if (st == KVL_OK && *host && strcmp(host, "*") != 0) {
        st = addr_resolve(text, host, &addr);
    }
    if (st != KVL_OK) {
        return st;
    }
    addr_set_port(&addr, port);
    *addr_p = addr;
    return KVL_OK;
}

/* the caller looked at the family; what has it is aligned for it */
static const struct sockaddr_in *addr_in(const struct sockaddr *addr)
{
    return (const void *)addr;
}

static const struct sockaddr_in6 *addr_in6(const struct sockaddr *addr)
{
    return (const void *)addr;
}

static void addr_format_in6(const struct sockaddr_in6 *in6, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN], device[IF_NAMESIZE];
    const char *scope = in6->sin6_scope_id ? if_indextoname(in6->sin6_scope_id, device) : NULL;

    inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
    snprintf(text, size, "[%s%s%s]:%u", host, scope ? "%" : "", scope ? scope : "",
             ntohs(in6->sin6_port));
}

void kvl_addr_format(const struct sockaddr *addr, char *text, size_t size)
{
    char host[INET_ADDRSTRLEN];

    if (addr->sa_family == AF_INET6) {
        addr_format_in6(addr_in6(addr), text, size);
    } else if (addr->sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr_in(addr)->sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, ntohs(addr_in(addr)->sin_port));
    } else {
        snprintf(text, size, "(family %d)", addr->sa_family);
    }
}

static bool addr_is_any(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        return addr_in(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return IN6_IS_ADDR_UNSPECIFIED(&addr_in6(addr)->sin6_addr);
}

/* ports do not count */
static bool addr_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    const struct sockaddr_in6 *a6 = addr_in6(a);
    const struct sockaddr_in6 *b6 = addr_in6(b);

    if (a->sa_family != b->sa_family) {
        return false;
    }
    if (a->sa_family == AF_INET) {
        return addr_in(a)->sin_addr.s_addr == addr_in(b)->sin_addr.s_addr;
    }
    return a->sa_family == AF_INET6 && a6->sin6_scope_id == b6->sin6_scope_id &&
           memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/* the device that has this very address */
static bool addr_owner(const struct sockaddr *addr, char *device, size_t size)
{
    struct ifaddrs *list, *ifa;

    if (getifaddrs(&list) != 0) {
        return false;
    }
    for (ifa = list; ifa; ifa = ifa->ifa_next) {
        if (ifa->ifa_addr && addr_same_host(ifa->ifa_addr, addr)) {
            snprintf(device, size, "%s", ifa->ifa_name);
            break;
        }
    }
    freeifaddrs(list);
    return ifa != NULL;
}

/* our address on the way to @a addr: connecting a datagram socket asks the routes and sends nothing */
static bool addr_source(const kvl_addr_t *addr, struct sockaddr_storage *source)
{
    kvl_addr_t to    = *addr;
    socklen_t length = sizeof(*source);
    int fd           = socket(addr->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good;

    if (fd < 0) {
        return false;
    }
    addr_set_port(&to, 9); /* discard; some kernels refuse port 0 */
    good = connect(fd, (const struct sockaddr *)&to.storage, to.length) == 0 &&
           getsockname(fd, (struct sockaddr *)source, &length) == 0;
    close(fd);
    return good;
}

kvl_status_t kvl_addr_device(const kvl_addr_t *addr, char *device, size_t size)
{
    const struct sockaddr *sa = (const struct sockaddr *)&addr->storage;
    struct sockaddr_storage source;
    char text[ADDR_HOST_SIZE];

    kvl_addr_format(sa, text, sizeof(text));
    if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6) {
        return kvl_error(KVL_ERR_NOT_FOUND, "address %s: not an ip address", text);
    }
    if (addr_is_any(sa)) {
        return kvl_error(KVL_ERR_NOT_FOUND, "address %s: any address, so no one device", text);
    }
    if (addr_owner(sa, device, size) ||
        (addr_source(addr, &source) && addr_owner((struct sockaddr *)&source, device, size))) {
        return KVL_OK;
    }
    return kvl_error(KVL_ERR_NOT_FOUND, "address %s: no device has a route to it", text);
}
