/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of sysfs may be missing, empty, unreadable (a port's speed while it is down), or, under a
 * root that a container or a test made, anything at all. So: the first line of at most one page, no
 * blocking, and nothing but printable characters comes out, since it goes to logs and messages. */

#define SYSFS_PAGE 4096

kvl_sysfs_t kvl_sysfs(const char *root, const char *path)
{
    kvl_sysfs_t file;
    int length = snprintf(file.path, sizeof(file.path), "%s%s", root, path);

    if (length < 0 || (size_t)length >= sizeof(file.path)) {
        file.path[0] = '\0';
    }
    return file;
}

kvl_sysfs_t kvl_sysfs_in(const kvl_sysfs_t *folder, const char *name)
{
    kvl_sysfs_t file = {""};
    size_t used = strlen(folder->path), length = strlen(name);

    if (used > 0 && used + length + 2 <= sizeof(file.path)) {
        memcpy(file.path, folder->path, used);
        file.path[used] = '/';
        memcpy(file.path + used + 1, name, length + 1);
    }
    return file;
}

bool kvl_sysfs_exists(const kvl_sysfs_t *folder, const char *name)
{
    kvl_sysfs_t file = kvl_sysfs_in(folder, name);

    return access(file.path, F_OK) == 0;
}

static ssize_t sysfs_read(const kvl_sysfs_t *file, char page[SYSFS_PAGE])
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t length;

    if (fd < 0) {
        return -1;
    }
    do {
        length = read(fd, page, SYSFS_PAGE);
    } while (length < 0 && errno == EINTR);
    close(fd);
    return length;
}

bool kvl_sysfs_text(const kvl_sysfs_t *folder, const char *name, char *text, size_t size)
{
    kvl_sysfs_t file = kvl_sysfs_in(folder, name);
    char page[SYSFS_PAGE];
    ssize_t length = sysfs_read(&file, page);
    size_t used    = 0;

    for (ssize_t i = 0; i < length && page[i] != '\n' && page[i] != '\0' && used + 1 < size; i++) {
        bool good    = page[i] >= ' ' && page[i] <= '~';
        text[used++] = good ? page[i] : '?';
    }
    while (used > 0 && text[used - 1] == ' ') {
        used--;
    }
    text[used] = '\0';
    return used > 0;
}

bool kvl_sysfs_number(const kvl_sysfs_t *folder, const char *name, long long *value_p)
{
    char text[32], *end;
    long long value;

    if (!kvl_sysfs_text(folder, name, text, sizeof(text))) {
        return false;
    }
    errno = 0;
    value = strtoll(text, &end, 0);
    if (end == text || *end || errno) {
        return false;
    }
    *value_p = value;
    return true;
}

bool kvl_sysfs_link(const kvl_sysfs_t *folder, const char *name, char *text, size_t size)
{
    kvl_sysfs_t file = kvl_sysfs_in(folder, name);
    char target[SYSFS_PAGE];
    ssize_t length = readlink(file.path, target, sizeof(target) - 1);
    const char *last;

    text[0] = '\0';
    if (length <= 0) {
        return false;
    }
    target[length] = '\0';
    last           = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    if (strlen(last) >= size) {
        return false;
    }
    for (size_t i = 0; i <= strlen(last); i++) {
        text[i] = last[i] && (last[i] < ' ' || last[i] > '~') ? '?' : last[i];
    }
    return text[0] != '\0';
}

/* DDDD:BB:DD.F, of a length; domains have four digits or more */
static bool pci_is_address(const char *text, size_t length)
{
    static const char tail[] = ":xx:xx.x";
    size_t tail_length       = sizeof(tail) - 1;

    if (length < tail_length + 4 || length >= sizeof(((kvl_pci_t *)NULL)->address)) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        size_t from_end = length - i;
        char wanted     = from_end <= tail_length ? tail[tail_length - from_end] : 'x';
        bool digit      = strchr("0123456789abcdefABCDEF", text[i]) != NULL;

        if (wanted == 'x' ? !digit : text[i] != wanted) {
            return false;
        }
    }
    return true;
}

/* ".../devices/pci0000:00/0000:00:01.0/0000:01:00.0/net/eth0": the part that is PCI */
static void pci_read(const char *path, kvl_pci_t *pci)
{
    const char *from = strstr(path, "/devices/pci"), *at;

    if (!from) {
        return;
    }
    from += strlen("/devices/");
    at = from + strcspn(from, "/");
    while (*at == '/') {
        size_t length = strcspn(at + 1, "/");

        if (!pci_is_address(at + 1, length)) {
            break;
        }
        memcpy(pci->address, at + 1, length);
        pci->address[length] = '\0';
        at += 1 + length;
    }
    if (pci->address[0] && (size_t)(at - from) < sizeof(pci->path)) {
        memcpy(pci->path, from, (size_t)(at - from));
        pci->path[at - from] = '\0';
    }
}

void kvl_sysfs_pci(const kvl_sysfs_t *folder, const char *name, kvl_pci_t *pci_p)
{
    kvl_sysfs_t file = kvl_sysfs_in(folder, name);
    char *path       = file.path[0] ? realpath(file.path, NULL) : NULL;

    *pci_p = (kvl_pci_t){"", ""};
    if (path) {
        pci_read(path, pci_p);
        free(path);
    }
}

int kvl_sysfs_numa(const kvl_sysfs_t *folder, const char *name)
{
    long long node = -1;

    return kvl_sysfs_number(folder, name, &node) && node >= 0 && node <= INT_MAX ? (int)node : -1;
}

void kvl_sysfs_device(const kvl_sysfs_t *device, kvl_rail_t *rail)
{
    kvl_pci_t physical;

    rail->numa = kvl_sysfs_numa(device, "numa_node");
    kvl_sysfs_pci(device, ".", &rail->pci);
    if (rail->pci.address[0] && kvl_sysfs_exists(device, "physfn")) {
        kvl_sysfs_pci(device, "physfn", &physical);
        snprintf(rail->physical, sizeof(rail->physical), "%s",
                 physical.address[0] ? physical.address : "?");
    }
}

DIR *kvl_sysfs_open(const kvl_sysfs_t *folder)
{
    return folder->path[0] ? opendir(folder->path) : NULL;
}

const char *kvl_sysfs_next(DIR *dir)
{
    const struct dirent *entry;

    do {
        entry = readdir(dir);
    } while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry ? entry->d_name : NULL;
}

kvl_status_t kvl_sysfs_taken(kvl_rail_table_t *table, kvl_status_t status)
{
    if (status == KVL_ERR_INVALID || status == KVL_ERR_LIMIT) {
        table->left_out++;
        return KVL_OK;
    }
    return status;
}

kvl_status_t kvl_sysfs_each(kvl_rail_table_t *table, const char *root, const char *path, kvl_sysfs_add_t add)
{
    kvl_sysfs_t folder  = kvl_sysfs(root, path);
    DIR *dir            = kvl_sysfs_open(&folder);
    kvl_status_t status = KVL_OK;
    const char *name;

    while (dir && status == KVL_OK && (name = kvl_sysfs_next(dir)) != NULL) {
        status = add(table, &folder, name);
    }
    if (dir) {
        closedir(dir);
    }
    return status;
}
