"""Requests and responses over kept connections: what every resource of the API is built on."""

from __future__ import annotations

import inspect
import logging
import os
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any, AsyncGenerator, Callable, Dict, Generic, List, Mapping, Optional, Protocol, Tuple, TypeVar

from . import encoding, http1
from .bodies import Body
from .errors import AtollConnectionError, AtollError, closed_client, error_of_response, protocol_error
from .retry import TOKEN_CODES, Backoff, Follower, Repeatable, Step, may_repeat
from .sse import SseParser
from .transport import Connection, Network

T = TypeVar("T")
G = TypeVar("G")
O = TypeVar("O")

LOG = logging.getLogger("atoll_client")
VERSION = "0.1.0"
SSE = "text/event-stream"
# Three of the server's heartbeats: a stream that is silent for so long is dead.
SILENCE_S = 45.0
MAX_ANSWER_BYTES = 256 * 1024 * 1024
MAX_PROBLEM_BYTES = 1024 * 1024
MAX_IDLE_CONNECTIONS = 8
# The server closes idle connections after 75 s.
MAX_IDLE_S = 30.0
# The server's own time for a copy, a removal, an unpacking (docs/files.md), and a margin.
LONG_S = 16 * 60.0
# A request that must not be sent twice takes a connection that is surely still there.
MAX_IDLE_ONCE_S = 3.0


class Stream(encoding.Shown, Generic[T]):
    """An asynchronous iterator that holds a connection: leave it by `async with`, or close it with `aclose()`."""

    def __init__(self, core: "Core", source: AsyncGenerator[T, None]) -> None:
        self.core = core
        self._source = source

    def __aiter__(self) -> "Stream[T]":
        return self

    async def __anext__(self) -> T:
        return await self._source.__anext__()

    async def aclose(self) -> None:
        await self._source.aclose()

    async def __aenter__(self) -> "Stream[T]":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class aclosing(Generic[G]):
    """contextlib's, which Python 3.9 lacks: leaving the block ends a generator now, and with it what it holds."""

    def __init__(self, generator: G) -> None:
        self._generator = generator

    async def __aenter__(self) -> G:
        return self._generator

    async def __aexit__(self, *_: object) -> None:
        await self._generator.aclose()  # type: ignore[attr-defined]


class AsyncOwned(encoding.Shown):
    """`async with` deletes it at the end. One that is gone by then is no error, and an error of the block is not replaced by one of the deletion."""

    async def delete(self, timeout: Optional[float] = None) -> None:
        raise NotImplementedError

    async def __aenter__(self: O) -> O:
        return self

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        try:
            await self.delete()
        except AtollError as failure:
            if error is None and failure.code != "not_found":
                raise


@dataclass
class Request:
    method: str
    path: str  # encoded
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Dict[str, str] = field(default_factory=dict)
    json: Any = None  # the body, where it is not None
    body: Optional[Body] = None
    idempotency_key: Optional[str] = None
    is_once: bool = False  # it must not take effect twice
    is_safe: bool = False  # done twice it does the same
    timeout: Optional[float] = None  # seconds without any byte; None: the client's
    body_timeout: Optional[float] = None  # the same once the answer has begun; None: no other one

    def repeatable(self) -> Repeatable:
        if self.body is not None and not self.body.is_repeatable:
            return Repeatable.NO
        if self.idempotency_key is not None or self.is_safe:
            return Repeatable.YES
        is_safe = self.method in ("GET", "HEAD", "PUT") and not self.is_once
        return Repeatable.YES if is_safe else Repeatable.IF_REFUSED


class Response:
    """The head of an answer, and its body as it comes. Close it, or read it to the end."""

    def __init__(self, core: "Core", connection: Connection, request: Request, head: http1.ResponseHead, rest: bytes, timeout: float) -> None:
        self.status = head.status
        self.headers = head.headers
        self._core = core
        self._connection: Optional[Connection] = connection
        self._decoder = http1.BodyDecoder(request.method, head)
        self._keeps = head.keeps_connection and not self._decoder.ends_with_connection
        self._timeout = timeout
        self._rest: Optional[bytes] = rest

    async def read_some(self) -> bytes:
        """Empty at the end."""
        while not self._decoder.is_done and self._connection is not None:
            piece, self._rest = self._rest, None
            if not piece:
                piece = await self._guarded_read()
            data = self._decoder.feed(piece) if piece else b""
            if not piece:
                self._decoder.feed_end()
            if data:
                return data
        self._give_back()
        return b""

    async def _guarded_read(self) -> bytes:
        assert self._connection is not None
        try:
            return await self._connection.read_some(self._timeout)
        except BaseException:
            self.close()
            raise

    async def read_all(self, limit: int = MAX_ANSWER_BYTES) -> bytes:
        pieces: List[bytes] = []
        size = 0
        try:
            while piece := await self.read_some():
                size += len(piece)
                if size > limit:
                    raise protocol_error(f"the answer has more than {limit} bytes")
                pieces.append(piece)
        finally:
            self.close()
        return b"".join(pieces)

    def _give_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._keeps and not self._rest:
            self._core.keep(connection)
        elif connection is not None:
            connection.close()

    def close(self) -> None:
        """A connection whose answer was not read to the end is given up."""
        if self._decoder.is_done:
            self._give_back()
        elif self._connection is not None:
            self._connection.close()
            self._connection = None


OnRetry = Callable[[AtollError, float], Any]


class Closer(Protocol):
    def end_with_client(self) -> None:
        """The client is closed, perhaps by another thread. What is cut short by that is an error for who waits for it."""
        ...


class Credentials:
    """An API key, or a token of one conversation or sandbox that a callback renews."""

    def __init__(self, api_key: Optional[str], token: Optional[str], renew: Optional[Callable[[], Any]]) -> None:
        if api_key is not None and (token is not None or renew is not None):
            raise ValueError("give api_key, or token and renew_token")
        self._api_key = api_key
        self._token = token
        self._renew = renew
        self.can_renew = renew is not None

    async def apply(self, fields: Dict[str, str]) -> Dict[str, str]:
        """Adds the key to the head; gives what the token adds to the query."""
        if self._api_key is not None:
            fields["Authorization"] = f"Bearer {self._api_key}"
        token = self._token
        if token is None and self._renew is not None:
            token = self._token = await self._ask(self._renew)
        return {} if token is None else {"token": token}

    def forget(self) -> None:
        """The server refused the token: the next request asks for a new one."""
        self._token = None

    async def _ask(self, renew: Callable[[], Any]) -> str:
        """The token that the callback gives. An exception of the callback becomes `no_token`, since its backend may be back in a moment, unless it is a refusal of
        the server, or an error in the program.
        """
        try:
            answer = renew()
            token = await answer if inspect.isawaitable(answer) else answer
        except (TypeError, AttributeError, NameError):
            raise
        except AtollError as failure:
            if 400 <= failure.status < 500 and failure.status not in (408, 429):
                failure.is_final = True
                raise
            raise AtollError(0, "no_token", f"renew_token: {failure}") from failure
        except Exception as failure:
            raise AtollError(0, "no_token", f"renew_token: {failure or type(failure).__name__}") from failure
        if not isinstance(token, str) or not token:
            raise AtollError(0, "no_token", "renew_token returned no token")
        return token


_cores: "weakref.WeakSet[Core]" = weakref.WeakSet()


def _after_fork() -> None:
    for core in list(_cores):
        core.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Core:
    def __init__(
        self,
        address: encoding.Address,
        credentials: Credentials,
        network: Network,
        timeout: float,
        retries: int,
        on_retry: Optional[OnRetry] = None,
    ) -> None:
        self.network = network
        self._on_retry = on_retry
        self.credentials = credentials
        self.address = address
        self._timeout = timeout
        self._retries = retries
        self._idle: List[Tuple[Connection, float]] = []
        self._is_closed = False
        self._closers: "weakref.WeakSet[Closer]" = weakref.WeakSet()
        self._lock = threading.Lock()
        _cores.add(self)

    def forget_parent(self) -> None:
        """In the child of a fork: the kept connections are the parent's, and a thread of it may have held the lock."""
        self._lock = threading.Lock()
        self._closers = weakref.WeakSet()
        while self._idle:
            self._idle.pop()[0].close()

    def ends_with_me(self, closer: "Closer") -> None:
        """close() ends it, too. AtollError `closed` where the client is closed already."""
        with self._lock:
            if self._is_closed:
                raise closed_client()
            self._closers.add(closer)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            closers = list(self._closers)
        for closer in closers:
            try:
                closer.end_with_client()
            except Exception:
                LOG.warning("a stream or a process could not be closed", exc_info=True)
        while self._idle:
            self._idle.pop()[0].close()

    def keep(self, connection: Connection) -> None:
        if self._is_closed or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))

    async def _connection(self, max_idle_s: float) -> Connection:
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                break  # another thread took it
            if time.monotonic() - since <= max_idle_s and not connection.is_stale():
                return connection
            connection.close()
        return await self.network.connect(self.address, self._timeout)

    async def _head(self, request: Request) -> Tuple[bytes, Optional[Body]]:
        body = request.body
        fields = {"Host": self.address.host_field, "User-Agent": f"atoll-client-python/{VERSION}", "Accept": "application/json"}
        token = await self.credentials.apply(fields)
        if request.json is not None:
            body = Body(encoding.to_json(request.json), self.network)
            fields["Content-Type"] = "application/json"
        if body is not None and body.length is None:
            fields["Transfer-Encoding"] = "chunked"
        elif body is not None or request.method in ("POST", "PUT", "PATCH"):
            fields["Content-Length"] = str(body.length if body is not None else 0)
        if request.idempotency_key is not None:
            fields["Idempotency-Key"] = request.idempotency_key
        fields.update(request.headers)
        target = encoding.target(self.address.prefix, request.path, {**request.query, **token})
        return http1.encode_head(request.method, target, fields), body

    async def exchange(self, request: Request) -> Response:
        """Makes a single try and returns the answer's head, whatever its status."""
        head, body = await self._head(request)
        timeout = request.timeout if request.timeout is not None else self._timeout
        is_safe = request.repeatable() is Repeatable.YES
        connection = await self._connection(MAX_IDLE_S if is_safe else MAX_IDLE_ONCE_S)
        try:
            try:
                keeps = await self._send(connection, head, body, timeout)
            except AtollConnectionError as error:
                # The server may have answered before it closed.
                response = await self._read_head(connection, request, min(timeout, 1.0), error)
                keeps = False
            else:
                response = await self._read_head(connection, request, timeout, None)
        except BaseException:
            connection.close()
            raise
        response._keeps = response._keeps and keeps
        return response

    async def _send(self, connection: Connection, head: bytes, body: Optional[Body], timeout: float) -> bool:
        """False where the server answered before it had all."""
        if body is None or (body.whole is not None and len(body.whole) <= 64 * 1024):
            await connection.write(head + (body.whole or b"" if body is not None else b""), timeout)
            return True
        await connection.write(head, timeout)
        async for piece in body.pieces():
            for start in range(0, len(piece), http1.MAX_HEAD_BYTES):
                part = piece[start : start + http1.MAX_HEAD_BYTES]
                if not await connection.write_unless_answered(part if body.length is not None else http1.encode_chunk(part), timeout):
                    return False
        if body.length is None:
            await connection.write(http1.LAST_CHUNK, timeout)
        return True

    async def _read_head(self, connection: Connection, request: Request, timeout: float, cause: Optional[AtollConnectionError]) -> Response:
        parser = http1.HeadParser()
        while True:
            try:
                piece = await connection.read_some(timeout)
            except AtollConnectionError as error:
                raise cause or error
            if not piece:
                raise cause or AtollConnectionError("connection_lost", "the server closed the connection without an answer")
            found = parser.feed(piece)
            if found is not None:
                left = timeout if request.body_timeout is None else request.body_timeout
                return Response(self, connection, request, found[0], found[1], left)

    async def open(self, request: Request, retries: Optional[int] = None) -> Response:
        """The answer of a request that succeeded, tried again where that is safe. Raises AtollError."""
        backoff = Backoff()
        renewed = False
        left = self._retries if retries is None else retries
        while True:
            try:
                response = await self.exchange(request)
                if 200 <= response.status < 300:
                    return response
                error = error_of_response(response.status, response.headers, await response.read_all(MAX_PROBLEM_BYTES))
            except AtollError as failure:
                error = failure
            kind = request.repeatable()
            if error.is_final:
                raise error
            if error.code in TOKEN_CODES and self.credentials.can_renew and not renewed and kind is not Repeatable.NO:
                renewed = True
                self.credentials.forget()
                continue
            if left <= 0 or not may_repeat(kind, error):
                raise error
            left -= 1
            await self.wait_after(error, backoff.next_wait(error.retry_after), f"{request.method} {request.path}")

    async def wait_after(self, error: AtollError, seconds: float, what: str, level: int = logging.WARNING) -> None:
        """Tells of what goes on after `error`, and waits."""
        LOG.log(level, "%s: %s; tried again in %.1f s", what, error, seconds)
        if self._on_retry is not None:
            self._on_retry(error, seconds)
        await self.network.sleep(seconds)

    async def call(self, method: str, path: str, query: Optional[Mapping[str, Any]] = None, **more: Any) -> Any:
        """The JSON of an answer; None where it has no body."""
        response = await self.open(Request(method, path, query or {}, **more))
        text = await response.read_all()
        try:
            return encoding.from_json(text) if text else None
        except ValueError:
            raise protocol_error("the answer is not JSON") from None

    def long(self, timeout: Optional[float]) -> float:
        """The timeout of an operation that may take the server's whole time before its answer begins."""
        return max(LONG_S, self._timeout) if timeout is None else timeout

    async def pages(
        self, path: str, query: Mapping[str, Any], name: str, timeout: Optional[float] = None
    ) -> AsyncGenerator[Dict[str, Any], None]:
        """The items of a list over all its pages."""
        cursor = query.get("cursor")
        while True:
            page = await self.call("GET", path, {**query, "cursor": cursor}, timeout=timeout)
            for item in page[name]:
                yield item
            cursor = page.get("next")
            if cursor is None:
                return

    async def open_events(self, request: Request, retries: Optional[int] = None) -> Response:
        """A stream of Server-Sent Events, for `frames_of`."""
        request.headers["Accept"] = SSE
        if request.timeout is None:
            request.timeout = SILENCE_S
        response = await self.open(request, retries)
        if not response.headers.get("content-type", "").startswith(SSE):
            response.close()
            raise protocol_error("the answer is no stream of events")
        return response


async def frames_of(
    response: Response, on_id: Optional[Callable[[str], None]] = None
) -> AsyncGenerator[Dict[str, Any], None]:
    """The objects of a stream, up to the end of the connection. `on_id` is told the id of each frame, before the frame."""
    parser = SseParser()
    async with aclosing(pieces_of(response)) as pieces:
        async for piece in pieces:
            for frame in parser.feed(piece):
                if on_id is not None:
                    on_id(parser.last_id)
                yield frame


async def pieces_of(response: Response) -> AsyncGenerator[bytes, None]:
    """The body of a response as it comes."""
    try:
        while piece := await response.read_some():
            yield piece
    finally:
        response.close()


async def prepare(core: Core, follower: Follower, step: Step, error: AtollError, what: str) -> None:
    """Does what a Follower asks for before the next connection; raises `error` where there is none."""
    if step is Step.RAISE:
        raise error
    if step is Step.RENEW:
        core.credentials.forget()
    if follower.wait_s == 0:
        LOG.debug("%s: %s; goes on at once", what, error)
        return
    follower.waiting(error)
    # That a connection ends is no trouble, that there is none is.
    await core.wait_after(error, follower.wait_s, what, logging.INFO if follower.was_live else logging.WARNING)
