/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/error.h"
#include "wire/wire.h"

#include <string.h>

/* clang-format off */
static const uint8_t rails_bytes[] = {
    2,                                   /* count */
    1, 4, 0x14, 0x1e, 0x28, 0x23, 0, 0,  /* tcp, IPv4, port 7700, mtu 9000 */
    10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    4, 'e', 't', 'h', '0',
    0, 0, 0, 0, 0, 0, 0, 0,              /* rdma, no address, nobody knows the mtu */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    8, 'm', 'l', 'x', '5', '_', '0', ':', '1',
};
/* clang-format on */

static kvl_status_t read_changed(size_t size, size_t at, uint8_t byte, kvl_peer_rail_t *rails,
                                 unsigned *count)
{
    uint8_t bytes[sizeof(rails_bytes)];
    kvl_rbuf_t r = {.data = bytes, .size = size, .message = "hello_ok"};
    kvl_status_t status;

    memcpy(bytes, rails_bytes, sizeof(bytes));
    bytes[at] = byte;
    status    = kvl_get_peer_rails(&r, rails, count);
    return status == KVL_OK ? kvl_wire_close(&r) : status;
}

TEST(wire_peer_rails, have_the_bytes_written_by_hand)
{
    kvl_peer_rail_t rails[] = {{KVL_PEER_RAIL_TCP, 4, 7700, 9000, {10, 0, 0, 1}, "eth0"},
                               {KVL_PEER_RAIL_RDMA, 0, 0, 0, {0}, "mlx5_0:1"}};
    uint8_t data[256];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_peer_rails(&w, rails, 2));
    REQUIRE(w.used == KVL_WIRE_HEAD_SIZE + sizeof(rails_bytes));
    CHECK_MEM_EQ(data + KVL_WIRE_HEAD_SIZE, rails_bytes, sizeof(rails_bytes));
}

TEST(wire_peer_rails, read_back_every_field)
{
    kvl_peer_rail_t rails[KVL_WIRE_RAILS_MAX];
    unsigned count = 0;

    REQUIRE(read_changed(sizeof(rails_bytes), 0, 2, rails, &count) == KVL_OK);
    REQUIRE(count == 2);
    CHECK(rails[0].kind == KVL_PEER_RAIL_TCP && rails[0].family == 4 && rails[0].port == 7700);
    CHECK(rails[0].mtu == 9000 && rails[1].mtu == 0);
    CHECK(rails[0].address[0] == 10 && rails[0].address[3] == 1);
    CHECK_STR_EQ(rails[0].name, "eth0");
    CHECK(rails[1].kind == KVL_PEER_RAIL_RDMA && rails[1].family == 0);
    CHECK_STR_EQ(rails[1].name, "mlx5_0:1");
}

TEST(wire_peer_rails, are_refused_when_a_field_is_wrong)
{
    kvl_peer_rail_t rails[KVL_WIRE_RAILS_MAX];
    unsigned count = 0;

    CHECK_EQ(read_changed(sizeof(rails_bytes), 0, 17, rails, &count), KVL_ERR_PROTOCOL); /* count */
    CHECK_EQ(read_changed(sizeof(rails_bytes), 0, 3, rails, &count), KVL_ERR_PROTOCOL);
    CHECK_EQ(read_changed(sizeof(rails_bytes), 0, 1, rails, &count), KVL_ERR_PROTOCOL); /* bytes left over */
    CHECK_EQ(read_changed(sizeof(rails_bytes), 1, 3, rails, &count), KVL_ERR_PROTOCOL); /* kind */
    CHECK_EQ(read_changed(sizeof(rails_bytes), 2, 5, rails, &count), KVL_ERR_PROTOCOL); /* family */
    CHECK_EQ(read_changed(sizeof(rails_bytes) - 1, 0, 2, rails, &count), KVL_ERR_PROTOCOL);
}

TEST(wire_stream_head, has_the_bytes_written_by_hand)
{
    static const uint8_t bytes[] = {7, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0};
    kvl_stream_head_t m = {.number = 7, .received = 258}, back = {0};
    uint8_t data[KVL_STREAM_HEAD_SIZE];

    kvl_put_stream_head(data, &m);
    CHECK_MEM_EQ(data, bytes, sizeof(bytes));
    CHECK_EQ(kvl_get_stream_head(data, sizeof(data), &back), KVL_OK);
    CHECK(back.number == 7 && back.received == 258);
    CHECK_EQ(kvl_get_stream_head(data, sizeof(data) - 1, &back), KVL_ERR_PROTOCOL);
    CHECK_EQ(kvl_get_stream_head(data, 0, &back), KVL_ERR_PROTOCOL);
}

TEST(wire_rail, comes_back_and_is_bounded)
{
    kvl_wire_rail_t m = {.leave = true, .rail = 15, .target = 3, .name = "eth3"}, back;
    uint8_t data[64];
    kvl_wbuf_t w;
    kvl_rbuf_t r;
    unsigned i;

    kvl_wbuf_init(&w, data, sizeof(data));
    REQUIRE(kvl_put_rail(&w, &m));
    for (i = 0; i < 3; i++) { /* as it is; a rail, a target that nobody has */
        data[KVL_WIRE_HEAD_SIZE + 1] = i == 1 ? 16 : 15;
        data[KVL_WIRE_HEAD_SIZE + 2] = i == 2 ? 16 : 3;
        r = (kvl_rbuf_t){.data = data + KVL_WIRE_HEAD_SIZE, .size = w.used - KVL_WIRE_HEAD_SIZE, .message = "rail"};
        CHECK_EQ(kvl_get_rail(&r, &back), i ? KVL_ERR_PROTOCOL : KVL_OK);
    }
    CHECK(back.leave && back.rail == 15 && back.target == 3);
    CHECK_STR_EQ(back.name, "eth3");
}
