# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a GPU for tests, by the driver's own calls: test/fake/cuda's, or a real one's."""

import ctypes


class Gpu:
    """Memory of device 0; bytes go in and out by copies, as the CPU cannot touch it."""

    def __init__(self, library: str, size: int):
        self.driver = ctypes.CDLL(library)
        self.context, self.stream, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        memory = ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
        self.address = memory.value

    def call(self, name: str, *arguments: object) -> None:
        result = getattr(self.driver, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def copy(self, to: int, source: int, length: int) -> None:
        self.call("cuMemcpyAsync", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(length), self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def write(self, offset: int, data: bytes) -> None:
        buffer = ctypes.create_string_buffer(data, len(data))
        self.copy(self.address + offset, ctypes.addressof(buffer), len(data))

    def read(self, offset: int, length: int) -> bytes:
        buffer = ctypes.create_string_buffer(length)
        self.copy(ctypes.addressof(buffer), self.address + offset, length)
        return buffer.raw
