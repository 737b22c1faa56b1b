# SPDX-License-Identifier: BSD-3-Clause
"""Memory that Python objects own: where it is, and its registration.

A view is taken of anything with the buffer protocol (bytes, bytearray, memoryview, array, mmap, numpy),
data_ptr() (torch) or __cuda_array_interface__; it keeps the memory where it is for as long as it lives.
"""

from __future__ import annotations

import ctypes
import math
import operator
from ctypes import byref, c_int, c_ssize_t, c_void_p, py_object
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import Invalid, OutOfRange, Unsupported
from .handle import Handle
from .library import check, lib

if TYPE_CHECKING:
    from .engine import Engine


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_void_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (py_object, ctypes.POINTER(_PyBuffer), c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None
_SIMPLE, _WRITABLE = 0, 1


@dataclass(frozen=True)
class AddressRange:
    """Memory known by its place alone, as some frameworks hand it over; they keep it there."""

    address: int
    length: int


class View:
    """Contiguous bytes of an object, held in place while this lives."""

    __slots__ = ("address", "length", "_owner", "_buffer")

    def __init__(self, owner: Any, writable: bool) -> None:
        self._buffer: _PyBuffer | None = None
        self._owner = owner
        if isinstance(owner, AddressRange):
            self.address, self.length = owner.address, owner.length
        elif _has_buffer(owner):
            self.address, self.length = self._take(owner, writable)
        elif getattr(owner, "__cuda_array_interface__", None) is not None:
            self.address, self.length = _cuda_array(owner, writable)
        elif callable(getattr(owner, "data_ptr", None)):
            self.address, self.length = _tensor(owner)
        else:
            raise TypeError(
                f"{_name(owner)} is no memory: give bytes, bytearray, memoryview, a numpy array, a torch tensor, "
                "or an object with the buffer protocol, data_ptr() or __cuda_array_interface__"
            )
        if self.length == 0:
            raise Invalid(f"{_name(owner)} has no bytes; a value and a region have at least one")

    def _take(self, owner: Any, writable: bool) -> tuple[int, int]:
        buffer = _PyBuffer()
        try:
            _get_buffer(owner, byref(buffer), _WRITABLE if writable else _SIMPLE)
        except BufferError as why:
            raise Invalid(f"{_name(owner)}: {why}") from None
        self._buffer = buffer
        return buffer.buf or 0, buffer.len

    def __del__(self) -> None:
        if self._buffer is not None:
            _release_buffer(byref(self._buffer))


def _name(owner: Any) -> str:
    return f"a {type(owner).__module__}.{type(owner).__qualname__}".replace("builtins.", "")


def _has_buffer(owner: Any) -> bool:
    try:
        memoryview(owner).release()
    except TypeError:
        return False
    except (BufferError, ValueError):  # it has one that cannot be had now: the real call says why
        return True
    return True


def _cuda_array(owner: Any, writable: bool) -> tuple[int, int]:
    interface = owner.__cuda_array_interface__
    shape, (address, readonly) = interface["shape"], interface["data"]
    size = int(interface["typestr"][2:])
    strides = interface.get("strides")
    dense = tuple(size * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    if strides is not None and tuple(strides) != dense:
        raise Invalid(f"{_name(owner)} is not contiguous: strides {tuple(strides)}, wanted {dense}")
    if writable and readonly:
        raise Invalid(f"{_name(owner)} is read-only")
    return address, size * math.prod(shape)


def _tensor(owner: Any) -> tuple[int, int]:
    if not owner.is_contiguous():
        raise Invalid(f"{_name(owner)} is not contiguous: use .contiguous()")
    kind = getattr(getattr(owner, "device", None), "type", "cpu")
    if kind not in ("cpu", "cuda"):
        raise Unsupported(f"{_name(owner)} lies in memory of a {kind} device; kvlane knows the host's and CUDA's")
    return owner.data_ptr(), owner.numel() * owner.element_size()


class Segment(NamedTuple):
    """A contiguous piece of a value: a part of a region."""

    region: Region
    offset: int
    length: int

    @property
    def address(self) -> int:
        return self.region.address + self.offset


class Region(Handle):
    """A registered buffer: `engine.register(buffer)`. Register once, at start: it pins pages.

    `region[a:b]` is the segment of those bytes. The buffer stays in place until close().
    """

    def __init__(self, engine: Engine, buffer: Any, writable: bool = True) -> None:
        self._view = View(buffer, writable)
        self.address, self.length = self._view.address, self._view.length
        pointer = c_void_p()
        check(engine._call(lib.kvl_region_register, self.address, self.length, byref(pointer)))
        super().__init__(pointer.value or 0, engine)

    def segment(self, offset: int = 0, length: int | None = None) -> Segment:
        """`length` bytes (all that follow) from `offset`."""
        if length is None:
            length = self.length - offset
        if offset < 0 or length < 1 or offset + length > self.length:
            raise OutOfRange(f"bytes {offset} to {offset + length} of a region of {self.length}")
        return Segment(self, offset, length)

    def __getitem__(self, part: slice) -> Segment:
        if not isinstance(part, slice):
            raise TypeError(f"region[a:b] is the segment of those bytes; {part!r} is no slice")
        start, stop, step = part.indices(self.length)
        if step != 1:
            raise Invalid(f"a segment is contiguous; the step is {step}")
        for bound in (part.start, part.stop):  # a list would be cut there; memory that is missing is a mistake
            if bound is not None and not -self.length <= operator.index(bound) <= self.length:
                raise OutOfRange(f"byte {bound} of a region of {self.length}")
        return self.segment(start, stop - start)

    def __len__(self) -> int:
        return self.length

    def _destroy(self, pointer: int) -> None:
        """Raises Busy while a batch uses it; nothing is changed then."""
        check(lib.kvl_region_release(pointer))
