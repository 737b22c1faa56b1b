# SPDX-License-Identifier: BSD-3-Clause
"""Finds, loads and checks libkvlane.so; declares the calls that this package makes.

The calls are those of <kvlane/...>, 1:1. ctypes.CDLL releases the GIL in each of them, so no wait here
holds up another thread. The structures and numbers below are compared with the headers by a test.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    CDLL,
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

from .errors import Status, VersionMismatch, error

VERSION = "0.1.0"
"""The release that this package belongs to; a library of another minor release is refused."""

KEY_MAX = 255
SEGMENTS_MAX = 1024
BATCH_MAX = 65536
RAILS_MAX = 16


class Segment(Structure):
    _fields_ = [("address", c_void_p), ("length", c_size_t), ("region", c_void_p)]


class Item(Structure):
    _fields_ = [
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("segments", c_void_p),
        ("segment_count", c_size_t),
    ]


class EngineParams(Structure):
    _fields_ = [("config", c_void_p), ("address", c_char_p)]


class BatchParams(Structure):
    _fields_ = [
        ("timeout_ms", c_int64),
        ("callback", c_void_p),
        ("arg", c_void_p),
        ("stream", c_void_p),
        ("event", c_void_p),
    ]


class NodeParams(Structure):
    _fields_ = [("config", c_void_p), ("listen", c_char_p), ("memory_bytes", c_uint64)]


class NodeStat(Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "keys bytes_used bytes_total sessions leases quarantined_slots evictions refused_messages "
            "puts gets hits misses commits aborts uptime_ms"
        ).split()
    ]


class SessionInfo(Structure):
    _fields_ = [
        ("depth", c_uint),
        ("sg_endpoints", c_uint),
        ("data_depth", c_uint),
        ("transport", c_char * 64),
        ("put_mode", c_char * 16),
        ("get_mode", c_char * 16),
        ("node_version", c_char * 32),
    ]


class LaneStat(Structure):
    _fields_ = [
        (name, c_uint64)
        for name in "ops completions bytes errors_rail errors_peer errors_item errors_batch".split()
    ]


class RailStat(Structure):
    _fields_ = [
        ("name", c_char * 72),
        ("peer", c_char * 72),
        ("state", c_char * 16),
        ("ups", c_uint64),
        ("fails", c_uint64),
        ("retries", c_uint64),
        ("registrations", c_uint64),
        ("ctrl", LaneStat),
        ("data", LaneStat),
        ("sg", LaneStat),
    ]


_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "kvl_version": (c_char_p, ()),
    "kvl_ucx_version": (c_char_p, ()),
    "kvl_ucx_path": (c_char_p, ()),
    "kvl_error_text": (c_char_p, ()),
    "kvl_status_name": (c_char_p, (c_int,)),
    "kvl_status_group": (c_int, (c_int,)),
    "kvl_config_create": (c_int, (POINTER(c_void_p),)),
    "kvl_config_set": (c_int, (c_void_p, c_char_p, c_char_p)),
    "kvl_config_get": (c_char_p, (c_void_p, c_char_p)),
    "kvl_config_destroy": (None, (c_void_p,)),
    "kvl_engine_create": (c_int, (POINTER(EngineParams), POINTER(c_void_p))),
    "kvl_engine_destroy": (None, (c_void_p,)),
    "kvl_engine_progress": (c_uint, (c_void_p,)),
    "kvl_engine_event_fd": (c_int, (c_void_p,)),
    "kvl_engine_clear_event": (None, (c_void_p,)),
    "kvl_batch_test": (c_int, (c_void_p,)),
    "kvl_batch_wait": (c_int, (c_void_p, c_int64)),
    "kvl_batch_cancel": (None, (c_void_p,)),
    "kvl_batch_item": (c_int, (c_void_p, c_size_t, POINTER(c_uint64))),
    "kvl_batch_cause": (c_char_p, (c_void_p,)),
    "kvl_batch_release": (c_int, (c_void_p,)),
    "kvl_region_register": (c_int, (c_void_p, c_void_p, c_size_t, POINTER(c_void_p))),
    "kvl_region_release": (c_int, (c_void_p,)),
    "kvl_cache_create": (c_int, (c_void_p, c_char_p, POINTER(c_void_p))),
    "kvl_cache_connect": (c_int, (c_void_p, c_int64)),
    "kvl_cache_destroy": (None, (c_void_p,)),
    "kvl_cache_submit": (
        c_int,
        (c_void_p, c_int, c_void_p, c_size_t, POINTER(BatchParams), POINTER(c_void_p)),
    ),
    "kvl_cache_stat": (c_int, (c_void_p, c_int64, POINTER(NodeStat))),
    "kvl_cache_session": (c_int, (c_void_p, POINTER(SessionInfo))),
    "kvl_cache_rails": (c_int, (c_void_p, POINTER(RailStat), POINTER(c_size_t))),
    "kvl_node_create": (c_int, (POINTER(NodeParams), POINTER(c_void_p))),
    "kvl_node_address": (c_int, (c_void_p, c_char_p, c_size_t)),
    "kvl_node_destroy": (None, (c_void_p,)),
}


def _load() -> tuple[CDLL, str]:
    """KVLANE_LIBRARY alone if it is set; else beside this file; else what the system's loader finds."""
    said = os.environ.get("KVLANE_LIBRARY")
    beside = [str(p) for p in sorted(Path(__file__).parent.glob("libkvlane.so*"))]
    failed = []
    for name in [said] if said else [*beside, "libkvlane.so.0"]:
        try:
            library = CDLL(name)
        except OSError as why:
            failed.append(str(why) if name in str(why) else f"{name}: {why}")
            continue
        return library, _path_of(library) or name
    raise ImportError(
        "kvlane: no library found ("
        + "; ".join(failed)
        + "). Set KVLANE_LIBRARY to the path of libkvlane.so, or install it where the loader looks."
    )


class _DlInfo(Structure):
    _fields_ = [
        ("fname", c_char_p),
        ("fbase", c_void_p),
        ("sname", c_char_p),
        ("saddr", c_void_p),
    ]


def _path_of(library: CDLL) -> str | None:
    """The file that was loaded, as the loader tells it."""
    try:
        dladdr = CDLL(None).dladdr
        dladdr.argtypes = (c_void_p, POINTER(_DlInfo))
        info = _DlInfo()
        if dladdr(ctypes.cast(library.kvl_version, c_void_p), byref(info)) and info.fname:
            return os.path.realpath(os.fsdecode(info.fname))
    except AttributeError:
        pass
    return None


def _declare(library: CDLL, path: str) -> str:
    """Gives every call its prototype; returns the library's version, which must fit this package's."""
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise VersionMismatch(f"{path} has no {name}: it is not the libkvlane of kvlane {VERSION}") from None
        function.restype, function.argtypes = result, arguments
    version: str = library.kvl_version().decode()
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        raise VersionMismatch(
            f"{path} is kvlane {version}, this Python package is of {VERSION}: install both from one release, "
            "or set KVLANE_LIBRARY"
        )
    if ctypes.sizeof(c_void_p) != 8:
        raise VersionMismatch("kvlane needs a 64-bit Python")
    return version


lib, library_path = _load()
version = _declare(lib, library_path)


def text_of(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def check(status: int, good: Status = Status.OK) -> None:
    """Raises what `status` means, with the library's text; on the thread that made the call."""
    if status != good:
        raise error(status, text_of(lib.kvl_error_text()))
