"""The interface of the client to the world: connections and time. `blocking.py` and `on_asyncio.py` implement it.

The coroutines of the blocking one never suspend. So all other code is written once, as coroutines, for both clients.
"""

from __future__ import annotations

from typing import Any, Callable, Protocol, TypeVar

from .encoding import Address

T = TypeVar("T")
READ_BYTES = 256 * 1024


class Connection(Protocol):
    """A byte stream. Raises AtollConnectionError for all that goes wrong. One reads and one writes at a time."""

    async def read_some(self, timeout: "float | None") -> bytes:
        """At least one byte; empty at the end of the stream. Seconds without any is an error, None: none is."""
        ...

    async def write(self, data: bytes, timeout: "float | None") -> None: ...

    async def write_unless_answered(self, data: bytes, timeout: "float | None") -> bool:
        """Writes like write(); false, with an unknown part of `data` written, once there is something to read."""
        ...

    async def write_last(self, data: bytes, timeout: "float | None") -> None:
        """Writes like write(), before close(). The blocking one does not wait, and writes nothing where another thread is writing."""
        ...

    def is_stale(self) -> bool:
        """True if an idle connection has ended or has bytes that nobody asked for."""
        ...

    def close(self) -> None:
        """At once, without waiting."""
        ...


class Network(Protocol):
    async def connect(self, address: Address, timeout: float) -> Connection: ...

    async def sleep(self, seconds: float) -> None: ...

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs what may wait for a disk."""
        ...
