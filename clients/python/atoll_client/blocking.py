"""Connections and time of the synchronous client, and how it runs coroutines that never suspend."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Callable, Coroutine, Iterator, Optional, TypeVar

from .encoding import Address
from .errors import AtollConnectionError
from .transport import READ_BYTES, Connection

T = TypeVar("T")
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
# Windows has no poll.
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Stopped(BaseException):
    """Another thread stopped what this one does. No handler of errors takes it."""


class Stopper:
    """Lets a thread end what another one waits for in `guarding()`: bytes of a connection, or the time until the next try."""

    _current = threading.local()

    def __init__(self) -> None:
        # A handler of a signal may call stop() in the thread that waits.
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._connection: Optional["BlockingConnection"] = None

    @property
    def is_stopped(self) -> bool:
        return self._wake.is_set()

    def stop(self) -> None:
        with self._lock:
            self._wake.set()
            connection = self._connection
        if connection is not None:
            connection.shut()

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Lets stop() end the work of this thread in the block; the work raises Stopped then."""
        outer = getattr(self._current, "stopper", None)
        self._current.stopper = self
        try:
            yield
        finally:
            self._current.stopper = outer

    @contextlib.contextmanager
    def _at(self, connection: "BlockingConnection") -> Iterator[None]:
        with self._lock:
            self._connection = connection
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._connection = None
        self.check()

    def check(self) -> None:
        if self._wake.is_set():
            raise Stopped

    @classmethod
    def waiting_for(cls, connection: "BlockingConnection") -> "contextlib.AbstractContextManager[None]":
        stopper = getattr(cls._current, "stopper", None)
        return contextlib.nullcontext() if stopper is None else stopper._at(connection)

    @classmethod
    def sleep(cls, seconds: float) -> None:
        stopper = getattr(cls._current, "stopper", None)
        if stopper is None:
            time.sleep(seconds)
        elif stopper._wake.wait(seconds):
            raise Stopped

    @classmethod
    def check_current(cls) -> None:
        stopper = getattr(cls._current, "stopper", None)
        if stopper is not None:
            stopper.check()


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
        self._pid = os.getpid()

    def _is_inherited(self) -> bool:
        """True where fork(2) brought it here: the process that opened it reads and writes it, too."""
        return self._pid != os.getpid()

    def _check_owner(self) -> None:
        if self._is_inherited():
            raise AtollConnectionError("connection_lost", "the connection belongs to the process that opened it, before a fork")

    def _wait(self, events: int, timeout: Optional[float]) -> None:
        with Stopper.waiting_for(self), _Selector() as selector:
            try:
                selector.register(self._socket, events)
            except (ValueError, OSError):
                raise AtollConnectionError("connection_lost", "the connection is closed") from None
            if not selector.select(timeout):
                raise AtollConnectionError("timeout", f"nothing happened for {timeout} s")

    def _try_read(self) -> "bytes | int":
        """Bytes, or which event to wait for."""
        try:
            with self._lock:
                return self._socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return READ
        except ssl.SSLWantWriteError:
            return WRITE
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except OSError as error:
            raise AtollConnectionError("connection_lost", str(error)) from error

    async def read_some(self, timeout: Optional[float]) -> bytes:
        self._check_owner()
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
            return 0, WRITE
        except ssl.SSLWantReadError:
            return 0, READ
        except OSError as error:
            raise AtollConnectionError("connection_lost", str(error)) from error

    async def write(self, data: bytes, timeout: Optional[float]) -> None:
        self._check_owner()
        with self._write_lock:
            view = memoryview(data)
            while view:
                written, event = self._try_write(view)
                view = view[written:]
                if event:
                    self._wait(event, timeout)

    async def write_last(self, data: bytes, timeout: Optional[float]) -> None:
        self._check_owner()
        if self._write_lock.acquire(blocking=False):
            try:
                self._try_write(memoryview(data))
            finally:
                self._write_lock.release()

    async def write_unless_answered(self, data: bytes, timeout: Optional[float]) -> bool:
        self._check_owner()
        view = memoryview(data)
        while view:
            got = self._try_read()
            if isinstance(got, bytes):
                self._ahead = got
                return False
            written, event = self._try_write(view)
            view = view[written:]
            if event:
                self._wait(READ | event, timeout)
        return True

    def is_stale(self) -> bool:
        try:
            return self._is_inherited() or isinstance(self._try_read(), bytes)
        except AtollConnectionError:
            return True

    def shut(self) -> None:
        """Wakes a thread that waits on it, which finds its end."""
        if self._is_inherited():
            return  # it would end for the process that opened it, too
        try:
            # Not that of ssl, which takes the TLS state away from a thread that reads.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        if self._is_inherited():
            # Without the lock, which a thread may have held at the fork.
            socket.socket.close(self._socket)
            return
        self.shut()
        with self._lock:
            self._socket.close()


class BlockingNetwork:
    def __init__(self, ssl_context: Optional[ssl.SSLContext]) -> None:
        self._ssl_context = ssl_context

    async def connect(self, address: Address, timeout: float) -> Connection:
        Stopper.check_current()
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
        Stopper.sleep(seconds)

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)
