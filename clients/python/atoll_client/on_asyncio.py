"""Connections and time of the asynchronous client: asyncio streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from typing import Any, Callable, Iterator, Optional, TypeVar

from .encoding import Address
from .errors import AtollConnectionError
from .transport import READ_BYTES, Connection

T = TypeVar("T")


class AsyncConnection:
    """Not asyncio.wait_for: before Python 3.12 it loses a cancellation that comes together with the result."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ahead: Optional["asyncio.Task[bytes]"] = None  # a read that began while writing
        self._draining = asyncio.Lock()
        self._was_late = False
        self._owner = (os.getpid(), asyncio.get_running_loop())

    def _is_foreign(self) -> bool:
        """True where another event loop opened it, or, before a fork, another process."""
        try:
            return self._owner != (os.getpid(), asyncio.get_running_loop())
        except RuntimeError:
            return True  # no loop runs

    def _check_owner(self) -> None:
        if self._is_foreign():
            raise AtollConnectionError("connection_lost", "the connection belongs to the event loop and the process that opened it")

    def _give_up(self) -> None:
        self._was_late = True
        self._writer.transport.abort()

    @contextlib.contextmanager
    def _deadline(self, timeout: Optional[float]) -> Iterator[None]:
        """Ends the connection, and with it what waits in the block, when the time is over."""
        timer = None if timeout is None else asyncio.get_running_loop().call_later(timeout, self._give_up)
        try:
            yield
        except OSError as error:
            if self._was_late:
                raise AtollConnectionError("timeout", f"nothing happened for {timeout} s") from None
            raise AtollConnectionError("connection_lost", str(error)) from error
        finally:
            if timer is not None:
                timer.cancel()
        if self._was_late:
            raise AtollConnectionError("timeout", f"nothing happened for {timeout} s")

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except ssl.SSLError:
            return b""

    async def read_some(self, timeout: Optional[float]) -> bytes:
        self._check_owner()
        reading, self._ahead = self._ahead, None
        with self._deadline(timeout):
            return await (reading or self._read())

    async def _drain(self, timeout: Optional[float]) -> None:
        async with self._draining:
            with self._deadline(timeout):
                await self._writer.drain()

    def _check_open(self) -> None:
        self._check_owner()
        if self._writer.transport.is_closing():
            raise AtollConnectionError("connection_lost", "the connection is closed")

    async def write(self, data: bytes, timeout: Optional[float]) -> None:
        self._check_open()
        self._writer.write(data)
        await self._drain(timeout)

    async def write_last(self, data: bytes, timeout: Optional[float]) -> None:
        await self.write(data, timeout)

    async def write_unless_answered(self, data: bytes, timeout: Optional[float]) -> bool:
        self._check_owner()
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self._read())
        if self._ahead.done():
            return False
        self._check_open()
        self._writer.write(data)
        drain = asyncio.ensure_future(self._drain(timeout))
        try:
            await asyncio.wait({drain, self._ahead}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_answered = self._ahead.done()
            if not drain.done():
                drain.cancel()
        if not is_answered:
            await drain
        elif drain.done() and not drain.cancelled():
            drain.exception()  # it is told by what was answered
        return not is_answered

    def is_stale(self) -> bool:
        return self._is_foreign() or self._reader.at_eof() or self._writer.transport.is_closing()

    def _drop(self) -> None:
        """Closes the descriptor alone: the loop that would is over, or is another process's."""
        shared = self._writer.get_extra_info("socket")
        if shared is None or shared.fileno() < 0:
            return
        # The transport's own socket object still counts on the number: it leads nowhere from now on.
        with open(os.devnull, "rb") as nowhere:
            os.dup2(nowhere.fileno(), shared.fileno(), inheritable=False)

    def close(self) -> None:
        pid, loop = self._owner
        if pid != os.getpid() or loop.is_closed():
            return self._drop()
        if self._is_foreign():
            loop.call_soon_threadsafe(self._writer.transport.abort)
            return None
        if self._ahead is not None and not self._ahead.cancel() and not self._ahead.cancelled():
            self._ahead.exception()  # nobody wants to know
        self._writer.transport.abort()


class AsyncNetwork:
    def __init__(self, ssl_context: Optional[ssl.SSLContext]) -> None:
        self._ssl_context = ssl_context

    def _open(self, address: Address) -> Any:
        if address.unix_path is not None:
            return asyncio.open_unix_connection(address.unix_path, limit=READ_BYTES)
        context = None
        if address.is_tls:
            context = self._ssl_context = self._ssl_context or ssl.create_default_context()
        name = address.host if address.is_tls else None
        return asyncio.open_connection(address.host, address.port, limit=READ_BYTES, ssl=context, server_hostname=name)

    async def connect(self, address: Address, timeout: float) -> Connection:
        opening = asyncio.ensure_future(self._open(address))
        try:
            await asyncio.wait({opening}, timeout=timeout)
        finally:
            if not opening.done():
                opening.add_done_callback(_discard)
                opening.cancel()
        if not opening.done():
            raise AtollConnectionError("connection_failed", f"no connection within {timeout} s", was_sent=False)
        try:
            reader, writer = opening.result()
        except OSError as error:
            raise AtollConnectionError("connection_failed", str(error), was_sent=False) from error
        return AsyncConnection(reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: function(*arguments))


def _discard(opening: "asyncio.Future[Any]") -> None:
    """Nobody waits for this connection any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].transport.abort()
