# SPDX-License-Identifier: BSD-3-Clause
"""Statuses and the exceptions that carry them: one class per status, below the class of its group."""

from __future__ import annotations

import enum
from typing import ClassVar


class Status(enum.IntEnum):
    """kvl_status_t, without its prefix."""

    OK = 0
    INPROGRESS = 1
    NOT_FOUND = -101
    LENGTH = -102
    INVALID = -103
    NO_SPACE = -104
    BUSY = -105
    LEASE = -106
    AMBIGUOUS = -107
    RANGE = -108
    CHECKSUM = -109
    RAIL = -201
    NO_DEVICE = -202
    REGISTER = -203
    PEER = -301
    UNREACHABLE = -302
    REFUSED = -303
    PROTOCOL = -304
    TIMEOUT = -401
    CANCELED = -402
    NO_MEMORY = -403
    CONFIG = -404
    UNSUPPORTED = -405
    VERSION = -406
    LIMIT = -407
    CLOSED = -408


class Error(Exception):
    """Whatever kvlane has to say; `status` is what to test, the text is for people."""

    status: ClassVar[Status]


class ItemError(Error):
    """One item failed; its neighbours did not."""


class RailError(Error):
    """A local fault: blame the rail."""


class PeerError(Error):
    """A remote fault: blame the peer."""


class BatchError(Error):
    """The whole batch or call failed."""


class NotFound(ItemError):
    """No such key."""

    status = Status.NOT_FOUND


class LengthMismatch(ItemError):
    """The stored length differs from the segments' sum."""

    status = Status.LENGTH


class Invalid(ItemError, ValueError):
    """An argument is wrong; the text names it."""

    status = Status.INVALID


class NoSpace(ItemError):
    """The node can never hold this value."""

    status = Status.NO_SPACE


class Busy(ItemError):
    """In use right now; trying again may succeed."""

    status = Status.BUSY


class LeaseLost(ItemError):
    """The lease expired or was revoked before the commit."""

    status = Status.LEASE


class Ambiguous(ItemError):
    """A put whose commit got no answer: stored or not, unknown."""

    status = Status.AMBIGUOUS


class OutOfRange(ItemError, IndexError):
    """Outside of what the peer exported."""

    status = Status.RANGE


class ChecksumMismatch(ItemError):
    """The bytes do not match their checksum."""

    status = Status.CHECKSUM


class RailFault(RailError):
    """A local transport fault."""

    status = Status.RAIL


class NoDevice(RailError):
    """No such device or transport; the text lists what there is."""

    status = Status.NO_DEVICE


class RegisterFailed(RailError):
    """Memory could not be registered."""

    status = Status.REGISTER


class PeerLost(PeerError):
    """The peer went away while work was under way."""

    status = Status.PEER


class Unreachable(PeerError):
    """Cannot connect, or known to be down."""

    status = Status.UNREACHABLE


class Refused(PeerError):
    """The peer refused this client; the text says why."""

    status = Status.REFUSED


class ProtocolError(PeerError):
    """The peer sent something that makes no sense."""

    status = Status.PROTOCOL


class TimedOut(BatchError, TimeoutError):
    """The deadline passed."""

    status = Status.TIMEOUT


class Canceled(BatchError):
    """Canceled by the caller."""

    status = Status.CANCELED


class NoMemory(BatchError, MemoryError):
    """Allocation failed."""

    status = Status.NO_MEMORY


class ConfigError(BatchError, ValueError):
    """A setting is unknown or wrong; the text names it."""

    status = Status.CONFIG


class Unsupported(BatchError):
    """This build or this UCX cannot do it."""

    status = Status.UNSUPPORTED


class VersionMismatch(BatchError, ImportError):
    """Versions do not fit."""

    status = Status.VERSION


class LimitExceeded(BatchError):
    """Over a stated limit; the text names it."""

    status = Status.LIMIT


class Closed(BatchError):
    """The object is closed, or belongs to the parent of this process."""

    status = Status.CLOSED


def _leaves(base: type[Error]) -> dict[int, type[Error]]:
    found: dict[int, type[Error]] = {}
    for child in base.__subclasses__():
        found |= {int(child.status): child} if "status" in vars(child) else _leaves(child)
    return found


_BY_STATUS = _leaves(Error)


def error(status: int, text: str) -> Error:
    """The exception for `status`."""
    return _BY_STATUS.get(status, Error)(text or f"status {status}")
