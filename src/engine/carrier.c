/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/private.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Does the system say that a rail's port is up? Interfaces are asked by the kernel's flags, which hold in
 * this network namespace whatever /sys shows; InfiniBand ports by their state file. What cannot be asked
 * is taken for up: an endpoint that fails tells. */

static bool interface_is_up(const char *name)
{
    struct ifreq request;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = true;

    memset(&request, 0, sizeof(request));
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
        up = (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    }
    if (fd >= 0) {
        close(fd);
    }
    return up;
}

/* @a device "mlx5_0:1" */
static bool port_is_up(const char *device)
{
    char path[256], state[32] = "";
    size_t length = strcspn(device, ":");
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/ports/%s/state", (int)length, device,
             device[length] ? device + length + 1 : "1");
    file = fopen(path, "re");
    if (!file) {
        return true;
    }
    if (!fgets(state, sizeof(state), file)) {
        state[0] = '\0';
    }
    fclose(file);
    return !state[0] || strstr(state, "ACTIVE");
}

static bool about_is_up(const kvl_rail_t *about)
{
    switch (about->kind) {
    case KVL_RAIL_TCP:
        return interface_is_up(about->name);
    case KVL_RAIL_RDMA:
        return port_is_up(about->name) && (!about->interface[0] || interface_is_up(about->interface));
    default:
        return true;
    }
}

bool kvl_engine_rail_is_up(const kvl_engine_t *engine, unsigned rail)
{
    const kvl_rail_t *about = engine->rails[rail].about;

    return !about || about_is_up(about);
}

bool kvl_engine_device_is_up(const kvl_engine_t *engine, const char *device)
{
    const kvl_rail_table_t *table = engine->table;
    size_t at                     = kvl_rail_table_find(table, device);

    return at >= table->rail_count || about_is_up(&table->rails[at]);
}
