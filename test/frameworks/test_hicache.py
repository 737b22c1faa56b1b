# SPDX-License-Identifier: BSD-3-Clause
"""KvlaneHiCache under SGLang's real host pools: layouts, keys, options, and what it promises its callers."""

import dataclasses
import json
import os
import re
import tempfile
import time
import types
import unittest
from typing import Any
from unittest import mock

import sglang_cpu as cpu
import torch
from sglang_cpu import LAYOUTS, PAGE, config, fill, host_pool, logical
from stage import Stage
from support import SRC, Kvlaned

from kvlane_hicache import KvlaneHiCache, options
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolTransfer
from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
from sglang.srt.runtime_context import get_parallel


class Layouts(Stage):
    def test_a_page_put_under_one_layout_is_got_under_every_other(self) -> None:
        for kind, layouts in LAYOUTS.items():
            pools = {layout: host_pool(kind, layout) for layout in layouts}
            backends = {
                layout: self.backend(pool, is_mla_model=kind == "mla", model_name=f"cross {kind}")
                for layout, pool in pools.items()
            }
            for seed, (source, pool) in enumerate(pools.items()):
                keys = [f"{source}-{i}" for i in range(5)]
                fill(pool, seed)
                at = pool.alloc(5 * PAGE)
                want = logical(kind, pool, at)
                self.assertEqual(backends[source].batch_set_v1(keys, at), [True] * 5)
                for target, other in pools.items():
                    with self.subTest(kind=kind, put=source, got=target):
                        fill(other, 99)
                        to = other.alloc(7 * PAGE)[2 * PAGE :]
                        self.assertEqual(backends[target].batch_exists([*keys, "no"]), 5)
                        self.assertEqual(backends[target].batch_get_v1(keys, to), [True] * 5)
                        self.assertTrue(torch.equal(logical(kind, other, to), want))
                        # and the copying calls, of which v0 is made
                        pages = [other.get_dummy_flat_data_page() for _ in keys]
                        got = backends[target].batch_get(keys, pages)
                        for i, page in enumerate(got):
                            other.set_from_flat_data_page(int(to[0]), page)
                            mine = logical(kind, other, to[:PAGE])
                            self.assertTrue(torch.equal(mine, want[:, i * PAGE : (i + 1) * PAGE]))
                    fill(pool, seed)

    def test_a_page_put_by_copy_is_got_in_place(self) -> None:
        for kind, layouts in LAYOUTS.items():
            for layout in layouts:
                with self.subTest(kind=kind, layout=layout):
                    pool = host_pool(kind, layout)
                    backend = self.backend(pool, is_mla_model=kind == "mla", model_name="copy")
                    fill(pool, 5)
                    at = pool.alloc(2 * PAGE)
                    flat = pool.get_data_page(int(at[0]), flat=True)
                    self.assertIs(backend.set(f"{kind} {layout}", flat), True)
                    want = logical(kind, pool, at[:PAGE])
                    self.assertEqual(backend.batch_get_v1([f"{kind} {layout}"], at[PAGE:]), [True])
                    self.assertTrue(torch.equal(logical(kind, pool, at[PAGE:]), want))

    def test_buffers_of_their_own_make_a_page_together(self) -> None:
        pool = cpu.split_pool()
        backend = self.backend(pool, is_mla_model=True, model_name="kv split")
        buffers = [pool.k_buffer, pool.v_buffer, pool.index_k_buffer]
        for buffer in buffers:
            buffer.copy_(torch.randn(buffer.shape))
        at = pool.alloc(6 * PAGE)
        source, to = at[: 3 * PAGE], at[3 * PAGE :]
        self.assertEqual(len(backend._pools["kv"].pages(3, source)[0]), 3)
        self.assertEqual(backend.batch_set_v1(["a", "b", "c"], source), [True] * 3)
        self.assertEqual(backend.batch_get_v1(["c", "a", "b"], to), [True] * 3)
        for buffer in buffers:  # [page, layer, ...]
            want = buffer[source[::PAGE] // PAGE]
            self.assertTrue(torch.equal(buffer[to[::PAGE] // PAGE], want[[2, 0, 1]]))

    def test_heads_split_for_another_tp_size_come_together(self) -> None:
        # two ranks with 2 heads each write for tp_lcm_size 4; four ranks with 1 head each read
        parts: dict[str, Any] = dict(tp_lcm_size=4, model_name="split", extra={"interface_v1": 1})
        wide = host_pool("mha", "page_head", heads=2)
        writer = self.backend(wide, tp_rank=1, tp_size=2, should_split_heads=True, **parts)
        fill(wide, 3)
        at = wide.alloc(3 * PAGE)
        keys = ["a", "b", "c"]
        self.assertEqual(writer.batch_set_v1(keys, at), [True] * 3)
        self.assertEqual(writer.batch_exists(keys), 3)
        want = logical("mha", wide, at).view(2, 3 * PAGE, cpu.LAYERS, 2, -1)
        for rank, layout in ((2, "page_head"), (3, "layer_first")):
            narrow = host_pool("mha", layout, heads=1)
            reader = self.backend(narrow, tp_rank=rank, tp_size=4, **parts)
            to = narrow.alloc(3 * PAGE)
            self.assertEqual(reader.batch_get_v1(keys, to), [True] * 3)
            mine = logical("mha", narrow, to).view(2, 3 * PAGE, cpu.LAYERS, -1)
            self.assertTrue(torch.equal(mine, want[:, :, :, rank - 2]))
        other = self.backend(host_pool("mha", "page_head", heads=1), tp_rank=0, tp_size=4, **parts)
        self.assertEqual(other.batch_exists(keys), 0)
        with self.assertRaisesRegex(ValueError, "interface_v1"):
            self.backend(tp_rank=1, tp_size=2, should_split_heads=True, **parts | {"extra": {}})


class Keys(Stage):
    def test_who_holds_the_same_bytes_shares_a_key_and_nobody_else(self) -> None:
        pools = {layout: host_pool("mha", layout) for layout in LAYOUTS["mha"]}

        def key(layout: str = "page_first", **changes: Any) -> bytes:
            backend = KvlaneHiCache(config(self.node.address, **changes), {})
            try:
                backend.register_mem_pool_host(pools[layout])
                return backend._keys.of(backend._pools["kv"], ["hash"])[0]
            finally:
                backend.close()

        same = {
            key("layer_first"),
            key("page_head"),
            key(dp_rank=3),
            key(extra={"depth": 3, "sg_endpoints": 2, "rails": "tcp"}),
            key(extra={"affinity": "off"}),
        }
        self.assertEqual(len(same), 1)
        others = [
            key(model_name="other"),
            key(tp_rank=1, tp_size=2),
            key(tp_rank=0, tp_size=2),
            key(pp_rank=1, pp_size=2),
            key(attn_cp_rank=1, attn_cp_size=2),
        ]
        self.assertEqual(len(same | set(others)), 6)
        mla = {key(is_mla_model=True, tp_rank=rank, tp_size=2) for rank in (0, 1)}
        self.assertEqual(len(mla), 1)
        long = key(model_name="m" * 500)
        self.assertLess(len(long), 255 - 64)


class Options(Stage):
    def test_unknown_names_are_refused_with_the_known_ones(self) -> None:
        for extra, text in (
            ({"dpeth": 4}, "unknown option dpeth; known: node, depth, sg_endpoints"),
            ({"depth": "4"}, "option depth is '4'; wanted: int"),
            ({"get_timeout": 0}, "get_timeout is 0"),
            ({"affinity": "near"}, "accepted: rank, numa, off"),
            ({"rank": 1}, '"affinity": "rank" alone'),
            ({"settings": {"KVLANE_DEPHT": 1}}, "KVLANE_DEPHT"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                KvlaneHiCache(config(self.node.address, extra=extra), {})
        with self.assertRaisesRegex(ValueError, "node is wanted"):
            KvlaneHiCache(config(""), {})

    def test_the_page_for_users_shows_every_option_and_what_works_as_it_stands(self) -> None:
        text = (SRC / "doc" / "frameworks.md").read_text()
        table = text[text.index("### Options") : text.index("**Rails by rank")]
        known = [field.name for field in dataclasses.fields(options.Options)]
        self.assertEqual(sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)), sorted(known))
        shown = re.search(r"extra-config '(\{.*?\})'", text, re.DOTALL)
        assert shown
        extra = json.loads(shown[1]) | {"node": self.node.address}
        backend = StorageBackendFactory.create_backend("dynamic", config(self.node.address, extra=extra), None)
        self.addCleanup(backend.close)
        self.assertIsInstance(backend, KvlaneHiCache)

    def test_two_backends_of_a_process_differ_and_the_environment_stays(self) -> None:
        before = dict(os.environ)
        tcp = {"settings": {"KVLANE_RAILS": "tcp"}}
        sessions = [self.backend(extra=tcp | {"depth": d, "sg_endpoints": d}).session() for d in (2, 5)]
        self.assertEqual([(s.depth, s.sg_endpoints) for s in sessions], [(2, 2), (5, 5)])
        self.assertEqual({s.transport for s in sessions}, {"tcp"})
        self.assertEqual(dict(os.environ), before)

    def test_the_smaller_depth_of_both_sides_is_in_force_on_both(self) -> None:
        settings = dict(KVLANE_DEPTH="6", KVLANE_SG_ENDPOINTS="5", KVLANE_LOG_LEVEL="info")
        with tempfile.TemporaryFile("w+") as log, Kvlaned(log=log, **settings) as node:
            want = []
            for mine, in_force in ((1, (1, 1)), (4, (4, 4)), (16, (6, 5))):
                backend = KvlaneHiCache(config(node.address, extra={"depth": mine, "sg_endpoints": mine}), {})
                self.assertEqual((backend.session().depth, backend.session().sg_endpoints), in_force)
                backend.close()
                want.append(in_force)
            log.seek(0)
            said = re.findall(r"depth (\d+), (\d+) sg endpoints", log.read())
            self.assertEqual([tuple(map(int, words)) for words in said], want)

    def test_the_rank_is_said_or_refused_and_never_tp_rank(self) -> None:
        def start(extra: dict[str, object], local: int | None = None, pcp: int | None = None, **env: str) -> None:
            changes = mock.patch.dict(os.environ, env)
            said = {} if local is None else {"world_group": types.SimpleNamespace(local_rank=local)}
            with changes, get_parallel().override(**said):
                settings = config(self.node.address, tp_rank=1, tp_size=2, extra=extra)
                settings.pcp_rank = pcp  # engines that know prefill-context-parallel ranks
                KvlaneHiCache(settings, {}).close()

        rank = {"affinity": "rank"}
        start(rank | {"rank": 0})
        start(rank, local=0)
        start(rank, pcp=0)
        start(rank, KVLANE_RANK="0")
        start(rank, local=0, KVLANE_RANK="0")
        start({}, local=3, KVLANE_RANK="0")  # nobody asked
        with self.assertRaisesRegex(ValueError, "nobody says which rank"):
            start(rank)
        with self.assertRaisesRegex(ValueError, "option rank says 0, world_group.local_rank says 3"):
            start(rank | {"rank": 0}, local=3)
        with self.assertRaisesRegex(ValueError, "pcp_rank says 2, KVLANE_RANK says 0"):
            start(rank, pcp=2, KVLANE_RANK="0")
        with self.assertRaisesRegex(ValueError, "world_group.local_rank says 3, KVLANE_RANK says 0"):
            start(rank, local=3, KVLANE_RANK="0")
        with self.assertRaisesRegex(ValueError, "LOCAL_RANK"):
            start(rank, local=0, LOCAL_RANK="2")


class Contract(Stage):
    def test_whatever_happens_lists_are_whole(self) -> None:
        pool = host_pool("mha", "page_first")
        backend = self.backend(pool, model_name="contract", extra={"get_timeout": 0.3, "put_timeout": 0.3})
        at = pool.alloc(2 * PAGE)
        none = self.backend(model_name="contract")  # no pool was registered
        for each in (backend, none):
            for call in (each.batch_set_v1, each.batch_get_v1):
                self.assertEqual(call(["a", "b", "c"], at), [False] * 3)
                self.assertEqual(call(["a"], None), [False])
                self.assertEqual(call([], at[:0]), [])
            self.assertEqual((each.batch_exists([]), each.exists("a"), each.get("a", torch.zeros(3))), (0, False, None))
            self.assertEqual(each.batch_get(["a", "b"], None), [None, None])
            self.assertIs(each.batch_set(["a"], [object()]), False)
            self.assertEqual(each.batch_set_v2([PoolTransfer("nope", at, keys=["a", "b"])]), {"nope": [False, False]})
            self.assertEqual(each.batch_exists_v2(["a"], [PoolTransfer("nope", at, keys=["a"])]).kv_hit_pages, 0)
        backend.close()
        self.assertEqual(backend.batch_get_v1(["a", "b"], at), [False, False])
        self.assertEqual(backend.batch_exists(["a"]), 0)
        backend.close()

    def test_one_page_that_fails_fails_alone(self) -> None:
        pool = host_pool("mha", "layer_first")
        backend = self.backend(pool, model_name="alone")
        at = pool.alloc(3 * PAGE)
        self.assertEqual(backend.batch_set_v1(["a", "c"], torch.cat([at[:PAGE], at[2 * PAGE :]])), [True, True])
        self.assertEqual(backend.batch_get_v1(["a", "b", "c"], at), [True, False, True])
        self.assertEqual(backend.batch_exists(["a", "b", "c"]), 1)

    def test_a_page_that_cannot_be_read_is_not_promised_again(self) -> None:
        pool = host_pool("mha", "page_first")
        backend = self.backend(pool, model_name="negative", extra={"negative_ttl": 7200.0})
        at = pool.alloc(2 * PAGE)
        backend.batch_set_v1(["a", "b"], at)
        # damaged behind its back: shorter than a page
        backend._cache.put({backend._keys.of(backend._pools["kv"], ["b"])[0]: b"short"}, timeout=10)
        self.assertEqual(backend.batch_exists(["a", "b"]), 2)
        self.assertEqual(backend.batch_get_v1(["a", "b"], at), [True, False])
        self.assertEqual(backend.batch_exists(["a", "b"]), 1)
        later = time.monotonic() + 7201
        with mock.patch("kvlane.connector.health.time", monotonic=lambda: later):
            self.assertEqual(backend.batch_exists(["a", "b"]), 2)
        self.assertEqual(backend.batch_get_v1(["b"], at[PAGE:]), [False])
        self.assertEqual(backend.batch_set_v1(["b"], at[PAGE:]), [True])  # a put makes up for it
        self.assertEqual(backend.batch_exists(["a", "b"]), 2)

    def test_exists_of_a_chain_is_one_message(self) -> None:
        pool = host_pool("mla", "page_first")
        backend = self.backend(pool, model_name="chain", is_mla_model=True)
        at = pool.alloc(64 * PAGE)
        keys = [f"k{i}" for i in range(301)]
        self.assertEqual(backend.batch_set_v1(keys[:64], at), [True] * 64)
        # and the node's answer is one: what else goes over ctrl are acknowledgements, one for eight messages
        before = sum(rail.ctrl.ops for rail in backend._cache.rails())
        for _ in range(8):
            self.assertEqual(backend.batch_exists(keys), 64)
        self.assertLess(sum(rail.ctrl.ops for rail in backend._cache.rails()) - before, 2 * 8)

    def test_nothing_is_registered_once_pages_have_moved(self) -> None:
        pool = host_pool("mha", "layer_first")
        backend = self.backend(pool, model_name="warm")
        at, keys = pool.alloc(32 * PAGE), [f"warm {i}" for i in range(32)]

        def registrations() -> int:
            self.assertEqual(backend.batch_set_v1(keys, at), [True] * 32)
            self.assertEqual(backend.batch_get_v1(keys, at), [True] * 32)
            return sum(rail.registrations for rail in backend._cache.rails())

        first = registrations()
        self.assertGreater(first, 0)
        self.assertEqual({registrations() for _ in range(20)}, {first})

    def test_counts_tell_the_funnel(self) -> None:
        pool = host_pool("mha", "page_head")
        backend = self.backend(pool, model_name="funnel")
        at = pool.alloc(3 * PAGE)
        backend.batch_set_v1(["a", "b"], at[: 2 * PAGE])
        backend.batch_exists(["a", "b", "c"])
        backend.batch_get_v1(["a", "b", "c"], at)
        page = 2 * cpu.LAYERS * PAGE * 2 * 64 * 2
        want = dict(queried=3, hit=2, get_pages=3, get_ok=2, get_bytes=2 * page)
        want |= dict(put_pages=2, put_ok=2, put_bytes=2 * page)
        metrics = backend.get_stats()
        self.assertEqual(metrics.funnel, {"kv": want})
        self.assertEqual((metrics.prefetch_pgs, metrics.backup_pgs), ([2], [2]))
        self.assertEqual(backend.get_stats().prefetch_pgs, [])


class SidePools(Stage):
    def backend_with(self, names: list[str]) -> tuple[KvlaneHiCache, dict[str, Any]]:
        pools = {name: host_pool("mha" if name == "kv" else "mla", "page_first") for name in ["kv", *names]}
        backend = self.backend(pools["kv"], model_name=f"{self.id()}")
        for name, pool in pools.items():
            backend.register_mem_host_pool_v2(pool, name)
        backend.on_host_pools_registered()
        return backend, pools

    def put(self, backend: KvlaneHiCache, pools: dict[str, Any], name: str, keys: list[str]) -> None:
        at = pools[name].alloc(len(keys) * PAGE)
        result = backend.batch_set_v2([PoolTransfer(name, at, keys=keys)])
        self.assertEqual(result, {name: [True] * len(keys)})

    def test_pools_come_back_each_into_its_own(self) -> None:
        backend, pools = self.backend_with(["swa"])
        at = {}
        for seed, (name, pool) in enumerate(pools.items()):
            fill(pool, seed)
            at[name] = pool.alloc(4 * PAGE)
        kinds = {"kv": "mha", "swa": "mla"}
        want = {name: logical(kinds[name], pools[name], at[name]) for name in pools}
        transfers = [PoolTransfer(name, at[name], keys=list("wxyz")) for name in pools]
        whole = {name: [True] * 4 for name in pools}
        self.assertEqual(backend.batch_set_v2(transfers), whole)
        for pool in pools.values():
            fill(pool, 77)
        self.assertEqual(backend.batch_get_v2(transfers), whole)
        for name in pools:
            self.assertTrue(torch.equal(logical(kinds[name], pools[name], at[name]), want[name]))

    def test_policies_cut_the_prefix(self) -> None:
        backend, pools = self.backend_with(["indexer", "mamba", "blocks"])
        keys = list("abcdef")
        self.put(backend, pools, "kv", keys[:5])
        self.put(backend, pools, "indexer", ["a", "b", "c", "d"])
        self.put(backend, pools, "mamba", ["b", "c", "e"])
        self.put(backend, pools, "blocks", ["a", "b", "c"])

        def ask(*transfers: PoolTransfer) -> tuple[int, dict[str, int], list[int]]:
            found = backend.batch_exists_v2(keys, list(transfers))
            extra = {str(k): v for k, v in found.extra_pool_hit_pages.items()}
            return found.kv_hit_pages, extra, found.restorable_prefix_pages

        every = PoolTransfer("indexer", keys=keys)
        last = PoolTransfer("mamba", keys=["?"], hit_policy=PoolHitPolicy.TRAILING_PAGES)
        two = PoolTransfer("mamba", keys=["?", "?"], hit_policy=PoolHitPolicy.TRAILING_PAGES)
        groups = PoolTransfer("blocks", keys=keys, hit_policy=PoolHitPolicy.BLOCK_GROUPS, group_pages=2)
        self.assertEqual(ask(), (5, {"kv": 5}, [1, 2, 3, 4, 5]))
        self.assertEqual(ask(every), (4, {"kv": 5, "indexer": 4}, [1, 2, 3, 4]))
        self.assertEqual(ask(last), (5, {"kv": 5, "mamba": 5}, [2, 3, 5]))
        self.assertEqual(ask(two), (3, {"kv": 5, "mamba": 3}, [3]))
        self.assertEqual(ask(every, last), (3, {"kv": 5, "indexer": 4, "mamba": 5}, [2, 3]))
        self.assertEqual(ask(groups), (5, {"kv": 5, "blocks": 2}, [1, 2, 3, 4, 5]))

    def test_a_pool_without_memory_is_a_marker(self) -> None:
        backend, pools = self.backend_with([])
        backend.register_mem_host_pool_v2(LogicalHostPool(64 * PAGE, PAGE), "logical")
        self.assertEqual(backend.batch_set_v2([PoolTransfer("logical", None, keys=["a"])]), {"logical": [True]})
        read = [PoolTransfer("logical", torch.arange(2 * PAGE), keys=["a", "b"])]
        self.assertEqual(backend.batch_get_v2(read), {"logical": [True, False]})
        unknown = types.SimpleNamespace(page_size=PAGE, layout="page_first", size_per_token=8)
        with self.assertRaisesRegex(ValueError, "no memory found in a SimpleNamespace"):
            backend.register_mem_host_pool_v2(unknown, "unknown")

    def test_a_pool_of_another_kind_moves_in_place_or_by_copy(self) -> None:
        for layout, in_place in (("page_first", True), ("page_first_direct", True), ("layer_first", False)):
            with self.subTest(layout):
                backend, _ = self.backend_with([])
                pool = cpu.index_pool(layout)
                backend.register_mem_host_pool_v2(pool, "indexer")
                self.assertIs(backend._pools["indexer"].in_place, in_place)
                at = pool.alloc(6 * PAGE)
                pool.k_buffer.copy_(torch.randn(pool.k_buffer.shape))
                firsts = at[::PAGE].tolist()
                want = [pool.get_data_page(i).clone() for i in firsts]
                put = PoolTransfer("indexer", at[: 3 * PAGE], keys=["a", "b", "c"])
                self.assertEqual(backend.batch_set_v2([put]), {"indexer": [True] * 3})
                get = PoolTransfer("indexer", at[2 * PAGE :], keys=["a", "no", "b", "c"])
                self.assertEqual(backend.batch_get_v2([get]), {"indexer": [True, False, True, True]})
                for first, page in zip(firsts, [*want[:2], want[0], None, want[1], want[2]]):
                    if page is not None:
                        self.assertTrue(torch.equal(pool.get_data_page(first), page))


if __name__ == "__main__":
    unittest.main()
