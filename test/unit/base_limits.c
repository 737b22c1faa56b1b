/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/limits.h"

#include <kvlane/status.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB  (UINT64_C(1) << 20)
#define NONE UINT64_MAX

TEST(locking_check, decides_over_limit_right_group_and_rails)
{
    static const struct {
        uint64_t memlock;
        bool ipc_lock;
        uint64_t group, pinned, need;
        unsigned rails;
        bool may;
    } rows[] = {
        {NONE, false, NONE, 0, 1 << 30, 1, true},
        {65536, false, NONE, 0, 65536, 1, true}, /* exactly */
        {65536, false, NONE, 0, 65537, 1, false},
        {65536, false, NONE, 4096, 65536, 1, false}, /* some is locked already */
        {65536, true, NONE, 0, 1 << 30, 1, true},    /* the right counts, not the limit */
        {0, false, NONE, 0, 1, 1, false},
        {8 * MIB, false, NONE, 0, 4 * MIB, 2, true}, /* each rail's pages count */
        {8 * MIB, false, NONE, 0, 4 * MIB, 3, false},
        {8 * MIB, false, NONE, 9 * MIB, 0, 1, false}, /* somebody lowered it meanwhile */
        {NONE, false, 64 * MIB, 0, 64 * MIB, 1, true},
        {NONE, false, 64 * MIB, 0, 64 * MIB + 1, 1, false},
        {NONE, true, 64 * MIB, 0, 65 * MIB, 1, false}, /* the group holds for everybody */
        {NONE, false, 64 * MIB, 0, 64 * MIB, 4, true}, /* whose pages are there once, whatever the rails */
        {NONE, false, 64 * MIB, 128 * MIB, 32 * MIB, 4, true},
        {NONE, false, 64 * MIB, 128 * MIB, 33 * MIB, 4, false},
        {NONE - 1, false, NONE, 0, NONE / 2, 16, false}, /* a product that wraps */
        {NONE, true, NONE, 0, NONE, 16, true},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kvl_locking_t memlock = {.memlock  = rows[i].memlock,
                                 .ipc_lock = rows[i].ipc_lock,
                                 .group    = rows[i].group,
                                 .pinned   = rows[i].pinned};
        kvl_status_t status   = kvl_locking_check(&memlock, rows[i].need, rows[i].rails, "test");

        CHECK_MSG(status == (rows[i].may ? KVL_OK : KVL_ERR_LIMIT), "row %zu: %s", i, kvl_status_name(status));
    }
}

TEST(locking_check, names_limit_need_process_and_the_ways_out)
{
    kvl_locking_t memlock = {.memlock = 65536, .group = NONE, .pinned = 8192, .process = "engine", .pid = 77};

    CHECK_EQ(kvl_locking_check(&memlock, 3 * MIB, 2, "region"), KVL_ERR_LIMIT);
    CHECK_STR_EQ(kvl_error_text(),
                 "region: engine (process 77) may lock 64 KiB of memory and has locked 8, but needs 6144 KiB more. Any of "
                 "these helps: `ulimit -l unlimited' before it, or a line \"* - memlock unlimited\" in "
                 "/etc/security/limits.conf; LimitMEMLOCK=infinity in its systemd unit; --ulimit memlock=-1 for its "
                 "container");
    memlock.ipc_lock = true;
    memlock.group    = MIB;
    CHECK_EQ(kvl_locking_check(&memlock, 3 * MIB, 2, "region"), KVL_ERR_LIMIT);
    CHECK_STR_EQ(kvl_error_text(),
                 "region: the control group of engine (process 77) may have 1024 KiB of memory; it has locked 4 and needs "
                 "3072 KiB more. Raise MemoryMax= of its systemd unit, or --memory of its container");
}

TEST(locking_look, knows_this_process)
{
    kvl_locking_t memlock;

    kvl_locking_look(&memlock);
    CHECK_EQ(memlock.pid, getpid());
    CHECK_STR_EQ(memlock.process, "test_unit");
    CHECK_EQ(memlock.pinned, 0);
    CHECK(memlock.group > 0);
}

TEST(limits_number, is_that_of_the_line_with_the_name)
{
    char path[] = "/tmp/kvl-limits-XXXXXX";
    int fd      = mkstemp(path);

    REQUIRE(fd >= 0);
    dprintf(fd, "max\nVmLck:\t  12 kB\nVmPin:\t 345 kB\n");
    close(fd);
    CHECK_EQ(kvl_limits_number(path, "VmPin:"), 345);
    CHECK_EQ(kvl_limits_number(path, "VmLck:"), 12);
    CHECK_EQ(kvl_limits_number(path, ""), NONE); /* "max" */
    CHECK_EQ(kvl_limits_number(path, "VmHWM:"), NONE);
    unlink(path);
    CHECK_EQ(kvl_limits_number(path, ""), NONE);
}
