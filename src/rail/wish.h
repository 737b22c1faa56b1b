/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of rail: what KVLANE_RAILS asks for, and what speaks against a rail. */
#ifndef KVL_RAIL_WISH_H
#define KVL_RAIL_WISH_H

#include "rail/table.h"

/* auto | ^TERM,... (auto without those) | TERM,...   TERM: tcp, shm, rdma, a rail's name, or a
 * device's name without its port (all its ports) */
typedef struct {
    const char *text;  /* as given; owned by the caller */
    const char *terms; /* NULL: auto alone */
    bool except;       /* the terms are what not to use */
} kvl_wish_t;

/* KVL_ERR_CONFIG: a term is empty or too long, auto or ^ stands among others */
kvl_status_t kvl_wish_parse(const char *text, kvl_wish_t *wish_p);

/* The next term, without its '^'; @a at_p runs from wish->terms; false after the last. */
bool kvl_wish_next(const char **at_p, char term[KVL_RAIL_NAME_SIZE]);
/* the kind that a term means; false: it is a name */
bool kvl_wish_kind(const char *term, kvl_rail_kind_t *kind_p);
/* does the term mean this rail? */
bool kvl_wish_means(const char *term, const kvl_rail_t *rail);
/* Place in the list of the first term that means the rail, and whether that term is a name; false if
 * none means it. */
bool kvl_wish_find(const kvl_wish_t *wish, const kvl_rail_t *rail, unsigned *place_p,
                   bool *named_p);

#define KVL_REASON_SIZE 192

/* Can bytes take this rail at all? If not, @a reason says why. */
bool kvl_rail_usable(const kvl_rail_t *rail, char reason[KVL_REASON_SIZE]);
/* Would one pick it who wasn't told its name? @a reach: interface that reaches the peer, or NULL. */
bool kvl_rail_plain(const kvl_rail_table_t *table, const kvl_rail_t *rail, const char *reach,
                    char reason[KVL_REASON_SIZE]);

#endif
