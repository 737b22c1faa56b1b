/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"
#include "tools/doctor_judge.h"

#include <string.h>

/* What the doctor makes of numbers: limits and findings are written by hand. */

#define MIB (UINT64_C(1) << 20)

TEST(doctor_memlock, is_a_failure_only_where_rdma_needs_it)
{
    static const struct {
        kvl_locking_t locking;
        bool rdma;
        kvl_found_t found;
    } rows[] = {
        {{.memlock = 64u << 10}, true, KVL_FOUND_FAIL},
        {{.memlock = 64u << 10}, false, KVL_FOUND_OK},
        {{.memlock = 64u << 10, .ipc_lock = true}, true, KVL_FOUND_OK},
        {{.memlock = 512 * MIB}, true, KVL_FOUND_WARN},
        {{.memlock = 16384 * MIB}, true, KVL_FOUND_OK},
        {{.memlock = KVL_UNLIMITED}, true, KVL_FOUND_OK},
        {{.memlock = 0}, true, KVL_FOUND_FAIL},
        {{.memlock = KVL_LOCKING_QUEUES - 1}, true, KVL_FOUND_FAIL},
        {{.memlock = KVL_LOCKING_QUEUES}, true, KVL_FOUND_WARN},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kvl_finding_t finding = kvl_judge_memlock(&rows[i].locking, rows[i].rdma);

        CHECK_MSG(finding.found == rows[i].found, "row %zu: %s", i, finding.text);
        CHECK((finding.way_out[0] != '\0') == (rows[i].found != KVL_FOUND_OK));
    }
    CHECK_HAS(kvl_judge_memlock(&rows[0].locking, true).text, "64 KiB");
    CHECK_HAS(kvl_judge_memlock(&rows[0].locking, true).way_out, "LimitMEMLOCK");
    CHECK_HAS(kvl_judge_memlock(&rows[3].locking, true).text, "512.0 MiB");
}

TEST(doctor_files, are_too_few_below_64_and_few_below_1024)
{
    CHECK_EQ(kvl_judge_files(0).found, KVL_FOUND_FAIL);
    CHECK_EQ(kvl_judge_files(63).found, KVL_FOUND_FAIL);
    CHECK_EQ(kvl_judge_files(64).found, KVL_FOUND_WARN);
    CHECK_EQ(kvl_judge_files(1023).found, KVL_FOUND_WARN);
    CHECK_EQ(kvl_judge_files(1024).found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_files(KVL_UNLIMITED).found, KVL_FOUND_OK);
    CHECK_HAS(kvl_judge_files(63).text, "63 files");
}

TEST(doctor_memory, wants_huge_pages_of_some_kind_and_room_in_dev_shm)
{
    kvl_huge_pages_t none        = {.transparent = "never"},
                     some        = {.total = 8, .free = 3, .transparent = "never"};
    kvl_huge_pages_t transparent = {.transparent = "madvise"}, unknown = {.total = 0};

    CHECK_EQ(kvl_judge_huge_pages(&none).found, KVL_FOUND_WARN);
    CHECK_EQ(kvl_judge_huge_pages(&some).found, KVL_FOUND_OK);
    CHECK_HAS(kvl_judge_huge_pages(&some).text, "8 reserved, 3 of them free");
    CHECK_EQ(kvl_judge_huge_pages(&transparent).found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_huge_pages(&unknown).found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_shm(0, 0).found, KVL_FOUND_WARN);
    CHECK_EQ(kvl_judge_shm(64 * MIB, 1 * MIB).found, KVL_FOUND_FAIL);
    CHECK_EQ(kvl_judge_shm(64 * MIB, 64 * MIB).found, KVL_FOUND_WARN); /* a container's default */
    CHECK_EQ(kvl_judge_shm(8192 * MIB, 8000 * MIB).found, KVL_FOUND_OK);
}

static const char one_ucx[] =
    "7f0 r-xp 0 08:01 1 /usr/lib/libucp.so.0.0.0\n7f1 rw-p 0 08:01 1 /usr/lib/libucp.so.0.0.0\n"
    "7f2 rw-p 0 0 0 \n7f3 r-xp 0 08:01 2 /usr/lib/libucs.so.0\n7f4 rw-p 0 0 0 [heap]";

TEST(doctor_ucx, finds_two_copies_and_an_older_one)
{
    char two[512];

    CHECK_EQ(kvl_judge_ucx("1.13", "1.13.1", "/usr/lib/libucp.so.0", one_ucx).found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_ucx("1.13", "1.22.0", "", one_ucx).found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_ucx("1.22", "1.13.1", "", one_ucx).found, KVL_FOUND_WARN);
    CHECK_EQ(kvl_judge_ucx("1.9", "1.13.1", "", "").found, KVL_FOUND_OK); /* numbers, not texts */
    snprintf(two, sizeof(two), "%s\n7f5 r-xp 0 08:01 9 /opt/ucx/lib/libucs.so.0\n", one_ucx);
    CHECK_EQ(kvl_judge_ucx("1.13", "1.13.1", "", two).found, KVL_FOUND_FAIL);
    CHECK_HAS(kvl_judge_ucx("1.13", "1.13.1", "", two).text, "/opt/ucx/lib/libucs.so.0");
    snprintf(two, sizeof(two), "%s\n7f5 r-xp 0 08:01 9 /opt/notlibucs.so.0\n", one_ucx);
    CHECK_EQ(kvl_judge_ucx("1.13", "1.13.1", "", two).found, KVL_FOUND_OK);
}

static kvl_rail_t roce(void)
{
    kvl_rail_t rail = {.name            = "mlx5_0:1",
                       .kind            = KVL_RAIL_RDMA,
                       .link_layer      = KVL_LINK_ETHERNET,
                       .state           = KVL_PORT_UP,
                       .mtu             = 9000,
                       .numa            = 1,
                       .endpoints_known = true,
                       .gid_count       = 2};

    strcpy(rail.gids[0].type, "IB/RoCE v1");
    strcpy(rail.gids[1].type, "RoCE v2");
    return rail;
}

TEST(doctor_port, tells_what_is_wrong_with_it)
{
    kvl_rail_t rail = roce();

    CHECK_EQ(kvl_judge_port(&rail).found, KVL_FOUND_OK);
    CHECK_STR_EQ(kvl_judge_port(&rail).name, "port mlx5_0:1");
    CHECK_HAS(kvl_judge_port(&rail).text, "mtu 9000, 2 GIDs (RoCE v2 among them), numa node 1");
    rail.mtu = 1500;
    CHECK_EQ(kvl_judge_port(&rail).found, KVL_FOUND_WARN);
    CHECK_HAS(kvl_judge_port(&rail).text,
              "has mtu 1500: a packet carries 1024 bytes of at most 4096");
    rail.mtu       = 9000;
    rail.gid_count = 1;
    CHECK_HAS(kvl_judge_port(&rail).text, "no GID of RoCE v2");
    rail.gid_count = 0;
    CHECK_HAS(kvl_judge_port(&rail).text, "has no GID");
    rail       = roce();
    rail.state = KVL_PORT_DOWN;
    strcpy(rail.state_text, "DOWN");
    CHECK_EQ(kvl_judge_port(&rail).found, KVL_FOUND_WARN);
    CHECK_HAS(kvl_judge_port(&rail).text, "is down");
    CHECK_HAS(kvl_judge_port(&rail).way_out, "ip link set");
    rail.link_layer =
        KVL_LINK_INFINIBAND; /* its mtu and GIDs have nothing to do with an interface */
    rail.state = KVL_PORT_UP;
    rail.mtu   = 0;
    CHECK_EQ(kvl_judge_port(&rail).found, KVL_FOUND_OK);
}

TEST(doctor_roce, carries_a_power_of_two_that_fits)
{
    CHECK_EQ(kvl_roce_payload(9000), 4096);
    CHECK_EQ(kvl_roce_payload(4200), 4096);
    CHECK_EQ(kvl_roce_payload(4096), 2048);
    CHECK_EQ(kvl_roce_payload(1500), 1024);
    CHECK_EQ(kvl_roce_payload(576), 256);
    CHECK_EQ(kvl_roce_payload(100), 0);
    CHECK_EQ(kvl_roce_payload(0), 0);
}

TEST(doctor_errors, names_counters_that_are_not_0)
{
    const kvl_error_count_t clean[] = {{"rx_errors", 0}, {"tx_errors", 0}};
    const kvl_error_count_t some[]  = {{"rx_errors", 0}, {"rx_crc_errors", 7}, {"tx_errors", 2}};

    CHECK_EQ(kvl_judge_errors("eth0", clean, 2).found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_errors("eth0", some, 3).found, KVL_FOUND_WARN);
    CHECK_STR_EQ(kvl_judge_errors("eth0", some, 3).text,
                 "since it was started: rx_crc_errors 7, tx_errors 2");
}

TEST(doctor_gpudirect, is_missed_only_where_gpu_and_rdma_are)
{
    static const struct {
        kvl_gpudirect_t has;
        kvl_found_t found;
    } rows[] = {
        {{0, true, false, false}, KVL_FOUND_OK},   {{8, false, false, false}, KVL_FOUND_OK},
        {{8, true, false, false}, KVL_FOUND_WARN}, {{8, true, true, false}, KVL_FOUND_OK},
        {{8, true, false, true}, KVL_FOUND_OK},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_EQ(kvl_judge_gpudirect(&rows[i].has).found, rows[i].found);
    }
}

TEST(doctor_transport, is_what_was_asked_for)
{
    kvl_rail_t rail = roce();

    CHECK_EQ(kvl_judge_transport("a", "auto", NULL, "posix").found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_transport("a", "rdma", NULL, "rc_verbs").found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_transport("a", "rdma", NULL, "tcp").found, KVL_FOUND_FAIL);
    CHECK_EQ(kvl_judge_transport("a", "shm", NULL, "posix").found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_transport("a", "shm", NULL, "tcp").found, KVL_FOUND_FAIL);
    CHECK_EQ(kvl_judge_transport("a", "tcp", NULL, "tcp").found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_transport("a", "mlx5_0:1", &rail, "rc_mlx5").found, KVL_FOUND_OK);
    CHECK_EQ(kvl_judge_transport("a", "mlx5_0:1", &rail, "tcp").found, KVL_FOUND_FAIL);
    rail.kind = KVL_RAIL_TCP;
    CHECK_EQ(kvl_judge_transport("a", "eth0", &rail, "tcp").found, KVL_FOUND_OK);
}

TEST(doctor_mtus, of_both_ends_are_compared)
{
    kvl_rail_t rail = roce();
    kvl_finding_t finding;

    CHECK(!kvl_judge_mtus("a", NULL, 1500, &finding));
    CHECK(!kvl_judge_mtus("a", &rail, 0, &finding));
    REQUIRE(kvl_judge_mtus("a", &rail, 9000, &finding));
    CHECK_EQ(finding.found, KVL_FOUND_OK);
    REQUIRE(kvl_judge_mtus("a", &rail, 1500, &finding));
    CHECK_EQ(finding.found, KVL_FOUND_FAIL);
    CHECK_HAS(finding.text, "9000 here, 1500 at the node");
    REQUIRE(kvl_judge_mtus("a", &rail, 4200, &finding)); /* packets carry the same */
    CHECK_EQ(finding.found, KVL_FOUND_WARN);
    rail.kind = KVL_RAIL_TCP;
    REQUIRE(kvl_judge_mtus("a", &rail, 1500, &finding));
    CHECK_EQ(finding.found, KVL_FOUND_WARN);
    rail.link_layer = KVL_LINK_LOOPBACK;
    CHECK(!kvl_judge_mtus("a", &rail, 1500, &finding));
}
