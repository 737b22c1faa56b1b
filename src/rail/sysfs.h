/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of discovery: small files and links below a root, none of them trusted. */
#ifndef KVL_RAIL_SYSFS_H
#define KVL_RAIL_SYSFS_H

#include "rail/table.h"

#include <dirent.h>

#define KVL_SYSFS_PATH 1024

/* a folder or file below the root */
typedef struct {
    char path[KVL_SYSFS_PATH]; /* "": too long, nothing is there */
} kvl_sysfs_t;

/* @a root "" is this host; @a path begins with '/' */
kvl_sysfs_t kvl_sysfs(const char *root, const char *path);
kvl_sysfs_t kvl_sysfs_in(const kvl_sysfs_t *folder, const char *name);

bool kvl_sysfs_exists(const kvl_sysfs_t *folder, const char *name);
/* The first line, printable ascii only, cut to @a size; "" and false if there is none. */
bool kvl_sysfs_text(const kvl_sysfs_t *folder, const char *name, char *text, size_t size);
/* A number as C writes it (0x...); false and no change if the line is anything else. */
bool kvl_sysfs_number(const kvl_sysfs_t *folder, const char *name, long long *value_p);
/* Last part of a link's target; "" and false if it is no link or does not fit. */
bool kvl_sysfs_link(const kvl_sysfs_t *folder, const char *name, char *text, size_t size);
/* Where the folder or link @a name is on PCI; empty if it is not. */
void kvl_sysfs_pci(const kvl_sysfs_t *folder, const char *name, kvl_pci_t *pci_p);
/* the node in the file @a name, -1 if unknown */
int kvl_sysfs_numa(const kvl_sysfs_t *folder, const char *name);
/* NUMA node, place on PCI and physical function of a device's folder */
void kvl_sysfs_device(const kvl_sysfs_t *device, kvl_rail_t *rail);

/* Calls add for each name in the folder, until one fails; a folder that is not there is an empty one. */
typedef kvl_status_t (*kvl_sysfs_add_t)(kvl_rail_table_t *table, const kvl_sysfs_t *folder, const char *name);
kvl_status_t kvl_sysfs_each(kvl_rail_table_t *table, const char *root, const char *path, kvl_sysfs_add_t add);

/* NULL if it cannot be read */
DIR *kvl_sysfs_open(const kvl_sysfs_t *folder);
/* The next name that is no "." or "..", NULL after the last. */
const char *kvl_sysfs_next(DIR *dir);

/* Each adds what it finds; KVL_ERR_NO_MEMORY alone is a failure. */
kvl_status_t kvl_sysfs_read_net(kvl_rail_table_t *table, const char *root);
kvl_status_t kvl_sysfs_read_ib(kvl_rail_table_t *table, const char *root);
kvl_status_t kvl_sysfs_read_gpus(kvl_rail_table_t *table, const char *root);
kvl_status_t kvl_sysfs_read_nodes(kvl_rail_table_t *table, const char *root);

/* what became of a row: counts those that the table did not take */
kvl_status_t kvl_sysfs_taken(kvl_rail_table_t *table, kvl_status_t status);

#endif
