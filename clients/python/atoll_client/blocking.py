"""Connections and time of the synchronous client, and how it runs coroutines that never suspend."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from typing import Any, Callable, Coroutine, Optional, TypeVar

from .encoding import Address
from .errors import AtollConnectionError
from .transport import READ_BYTES, Connection

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine over a blocking network. RuntimeError if it waits for anything else."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("the synchronous client was given something asynchronous; AsyncAtoll takes it")


class BlockingConnection:
    """The socket does not block; waiting is done outside of `_lock`, so that one thread reads while another one writes."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.setblocking(False)
        self._lock = threading.Lock()  # around each call of the socket: TLS is no two independent streams
        self._write_lock = threading.Lock()
        self._ahead = b""  # read while writing

    def _wait(self, events: int, timeout: Optional[float]) -> None:
        poll = select.poll()
        if self._socket.fileno() < 0:
            raise AtollConnectionError("connection_lost", "the connection is closed")
        poll.register(self._socket, events)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise AtollConnectionError("timeout", f"nothing happened for {timeout} s")

    def _try_read(self) -> "bytes | int":
        """Bytes, or which event to wait for."""
        try:
            with self._lock:
                return self._socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return select.POLLIN
        except ssl.SSLWantWriteError:
            return select.POLLOUT
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except OSError as error:
            raise AtollConnectionError("connection_lost", str(error)) from error

    async def read_some(self, timeout: Optional[float]) -> bytes:
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        while True:
            got = self._try_read()
            if isinstance(got, bytes):
                return got
            self._wait(got, timeout)

    def _try_write(self, data: memoryview) -> "tuple[int, int]":
        """(bytes written, which event to wait for or 0)."""
        try:
            with self._lock:
                return self._socket.send(data), 0
        except (BlockingIOError, ssl.SSLWantWriteError):
            return 0, select.POLLOUT
        except ssl.SSLWantReadError:
            return 0, select.POLLIN
        except OSError as error:
            raise AtollConnectionError("connection_lost", str(error)) from error

    async def write(self, data: bytes, timeout: Optional[float]) -> None:
        with self._write_lock:
            view = memoryview(data)
            while view:
                written, event = self._try_write(view)
                view = view[written:]
                if event:
                    self._wait(event, timeout)

    async def write_unless_answered(self, data: bytes, timeout: Optional[float]) -> bool:
        view = memoryview(data)
        while view:
            got = self._try_read()
            if isinstance(got, bytes):
                self._ahead = got
                return False
            written, event = self._try_write(view)
            view = view[written:]
            if event:
                self._wait(select.POLLIN | event, timeout)
        return True

    def is_stale(self) -> bool:
        try:
            return isinstance(self._try_read(), bytes)
        except AtollConnectionError:
            return True

    def close(self) -> None:
        try:
            # Wakes a thread that waits on it.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        with self._lock:
            self._socket.close()


class BlockingNetwork:
    def __init__(self, ssl_context: Optional[ssl.SSLContext]) -> None:
        self._ssl_context = ssl_context

    async def connect(self, address: Address, timeout: float) -> Connection:
        sock: Optional[socket.socket] = None
        try:
            if address.unix_path is not None:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.settimeout(timeout)
                sock.connect(address.unix_path)
            else:
                sock = socket.create_connection((address.host, address.port), timeout)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.is_tls:
                context = self._ssl_context = self._ssl_context or ssl.create_default_context()
                sock = context.wrap_socket(sock, server_hostname=address.host)
            return BlockingConnection(sock)
        except OSError as error:
            if sock is not None:
                sock.close()
            raise AtollConnectionError("connection_failed", str(error), was_sent=False) from error
        except BaseException:
            if sock is not None:
                sock.close()
            raise

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)
