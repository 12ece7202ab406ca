"""Processes of a sandbox that outlive their request, asynchronous, and terminals on them."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Dict, List, Optional, Sequence

from .bodies import Body, BodySource
from .core import Core, Request, Stream, aclosing, frames_of, prepare
from .encoding import Record, Shown, given, program_of, segment
from .errors import AtollConnectionError, AtollError
from .models import ProcessFrame, ProcessInfo, ProcessOutput, closed_error
from .retry import Backoff, Follower, Step
from .websocket import WebSocket, WebSocketClosed

STDIN, STDOUT, STDERR = 0, 1, 2
# A message to the server: beyond this, input is sent in parts.
INPUT_BYTES = 32 * 1024
# A process that is followed is connected to again so often in a row.
ATTACH_FAILURES = 8
# Close codes after which the process can be attached again: the server ends, failed, or was full.
_BROKEN = (1001, 1006, 1011, 1013)


class AsyncAttachment(Shown):
    """A process as its output comes, and its input.

    Iterating gives every ProcessFrame up to `exit`. A connection that breaks is opened again at the same byte; while there
    is none, input is refused with an AtollConnectionError. `after` counts the bytes of output that have come or were dropped: the `after` of another attachment.
    """

    def __init__(self, core: Core, path: str, after: int, timeout: Optional[float] = None) -> None:
        self.core = self._core = core
        self._timeout = timeout
        self._route = path
        self.after = after
        self.exit: Optional[Record] = None
        self._socket: Optional[WebSocket] = None
        self._is_closed = False
        self._frames = self._all_frames()

    async def connect(self) -> "AsyncAttachment":
        self._socket = await self._open()
        return self

    async def _open(self) -> WebSocket:
        for may_renew in (self._core.credentials.can_renew, False):
            try:
                return await WebSocket.open(self._core, self._route, {"after": self.after}, self._timeout)
            except AtollError as error:
                if error.is_final or error.code != "token_expired" or not may_renew:
                    raise
                self._core.credentials.forget()
        raise AssertionError

    async def _reconnect(self, backoff: Backoff, error: AtollError) -> None:
        """Opens the connection again. Raises `error` where that makes no sense or fails too often."""
        if self._socket is not None:
            self._socket.abandon()
        self._socket = None
        if isinstance(error, WebSocketClosed) and error.code == "token_expired" and self._core.credentials.can_renew:
            self._core.credentials.forget()
        elif isinstance(error, WebSocketClosed) and error.number not in _BROKEN:
            raise error
        while self._socket is None:
            if error.code == "protocol_error" or backoff.failures >= ATTACH_FAILURES:
                raise error
            await self._core.wait_after(error, backoff.next_wait(error.retry_after), self._route)
            try:
                self._socket = await self._open()
            except AtollError as failure:
                if 300 <= failure.status < 500 and failure.status not in (408, 429):
                    raise
                error = failure

    async def _all_frames(self) -> AsyncGenerator[ProcessFrame, None]:
        backoff = Backoff()
        while self.exit is None and not self._is_closed:
            try:
                if self._socket is None:
                    await self.connect()
                assert self._socket is not None
                frame = self._parse(await self._socket.receive())
            except AtollError as error:
                if self._is_closed:
                    return
                await self._reconnect(backoff, error)
                continue
            if frame is not None:
                backoff.succeeded()
                yield frame
        if self._socket is not None:
            await self._socket.aclose()

    def _parse(self, message: Any) -> Optional[ProcessFrame]:
        """None for a frame of a kind that this client does not know."""
        if not isinstance(message, bytes):
            frame = ProcessFrame(str(message.get("type")), info=message)
        elif message and message[0] in (STDOUT, STDERR):
            frame = ProcessFrame("stdout" if message[0] == STDOUT else "stderr", message[1:])
        else:
            return None
        self.after = frame.end(self.after)
        if frame.type == "exit":
            self.exit = frame.info
        return frame

    def __aiter__(self) -> "AsyncAttachment":
        return self

    async def __anext__(self) -> ProcessFrame:
        return await self._frames.__anext__()

    def _connected(self) -> WebSocket:
        socket = self._socket
        if socket is None:
            raise AtollConnectionError("connection_lost", "the process is not attached now", was_sent=False)
        return socket

    async def write(self, data: "bytes | str") -> None:
        """Bytes for stdin or the terminal."""
        raw = data.encode() if isinstance(data, str) else bytes(data)
        for start in range(0, len(raw), INPUT_BYTES):
            await self._connected().send_bytes(bytes([STDIN]) + raw[start : start + INPUT_BYTES])

    async def end_input(self) -> None:
        await self._connected().send_object({"type": "eof"})

    async def resize(self, cols: int, rows: int) -> None:
        await self._connected().send_object({"type": "resize", "cols": cols, "rows": rows})

    async def signal(self, signal: str) -> None:
        """`signal` is a name: `SIGINT`."""
        await self._connected().send_object({"type": "signal", "signal": signal})

    async def aclose(self) -> None:
        """Detaches; the process goes on."""
        self._is_closed = True
        # Another thread may give up the connection meanwhile.
        socket = self._socket
        if socket is not None:
            await socket.aclose()

    async def __aenter__(self) -> "AsyncAttachment":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncProcesses(Shown):
    def __init__(self, core: Core, sandbox_id: str) -> None:
        self._core = core
        self._route = f"/v1/sandboxes/{segment(sandbox_id)}/processes"

    def _one(self, process_id: str, *rest: str) -> str:
        return "/".join([self._route, segment(process_id), *rest])

    async def start(
        self,
        command: "str | Sequence[str] | None" = None,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        pty: Optional[Dict[str, int]] = None,
        tag: Optional[str] = None,
        restart: Optional[str] = None,
        stdin: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> ProcessInfo:
        """Starts a process that lives on unattended; the answer has `process_id`. `pty` is `{"cols": …, "rows": …}`. Without one
        `stdin` is `pipe`, which stays open, or `null`.

        `restart="generation"` starts it again, as another process, in each generation of the conversation's sandbox, until it
        gets SIGTERM or SIGKILL here.
        """
        more = given(cwd=cwd, env=env, pty=pty, tag=tag, restart=restart, stdin=stdin, timeout_ms=timeout_ms)
        body = {**program_of(command, argv), **more}
        return await self._core.call("POST", self._route, json=body, timeout=timeout)

    async def list(self, tag: Optional[str] = None, timeout: Optional[float] = None) -> List[ProcessInfo]:
        """All of them, or those with a tag."""
        return [process async for process in self._core.pages(self._route, {"tag": tag}, "processes", timeout)]  # type: ignore[misc]

    async def get(self, process_id: str, timeout: Optional[float] = None) -> ProcessInfo:
        return await self._core.call("GET", self._one(process_id), timeout=timeout)

    async def signal(self, process_id: str, signal: str, timeout: Optional[float] = None) -> Any:
        """`signal` is a name: `SIGTERM`."""
        return await self._core.call("POST", self._one(process_id, "signal"), json={"signal": signal}, timeout=timeout)

    async def stdin(self, process_id: str, data: BodySource, eof: bool = False, timeout: Optional[float] = None) -> Any:
        """Writes bytes to the process's input; `eof` ends it behind them."""
        headers = {"Content-Type": "application/octet-stream"}
        body = Body(data, self._core.network)
        query = {"eof": True if eof else None}
        return await self._core.call("POST", self._one(process_id, "stdin"), query, headers=headers, body=body, timeout=timeout)

    async def resize(self, process_id: str, cols: int, rows: int, timeout: Optional[float] = None) -> Any:
        return await self._core.call("POST", self._one(process_id, "resize"), json={"cols": cols, "rows": rows}, timeout=timeout)

    async def output(self, process_id: str, after: int = 0, timeout: Optional[float] = None) -> ProcessOutput:
        """A page of what it has written, from byte `after` on; at once, perhaps empty. All of it: again with `next` until there is an `exit`."""
        return ProcessOutput.parse(await self._core.call("GET", self._one(process_id, "output"), {"after": after}, timeout=timeout))

    def follow(self, process_id: str, after: int = 0, timeout: Optional[float] = None) -> Stream[ProcessFrame]:
        """Its output, as it comes, from byte `after` on, up to the frame `exit`; without a WebSocket. A connection that breaks is opened
        again at the same byte, which its frame `started` tells.
        """
        follower = Follower(after, self._core.credentials.can_renew, ATTACH_FAILURES)
        return Stream(self._core, self._follow(self._one(process_id, "output"), follower, timeout))

    async def _follow(self, path: str, follower: Follower, timeout: Optional[float]) -> AsyncGenerator[ProcessFrame, None]:
        while True:
            error: AtollError = AtollConnectionError("connection_lost", "the stream ended before the process did")
            try:
                response = await self._core.open_events(Request("GET", path, {"after": follower.after}, timeout=timeout), 0)
                follower.opened()
                async with aclosing(frames_of(response)) as messages:
                    async for message in messages:
                        if message["type"] == "stream_closed":
                            error = closed_error(message)
                            continue
                        frame = ProcessFrame.parse(message)
                        follower.after = frame.end(follower.after)
                        if frame.type != "started":
                            follower.succeeded()
                        yield frame
                        if frame.type == "exit":
                            return
            except AtollError as failure:
                error = failure
            step = follower.ended(error)
            if step is Step.STOP:
                raise error
            await prepare(self._core, follower, step, error, path)

    async def attach(self, process_id: str, after: int = 0, timeout: Optional[float] = None) -> AsyncAttachment:
        """Output from byte `after` on, as far as it is kept, and input."""
        return await AsyncAttachment(self._core, self._one(process_id, "ws"), after, timeout=timeout).connect()


class AsyncTerminal(AsyncAttachment):
    """A shell on a pseudo-terminal. Closing it detaches; `process_id` attaches again."""

    process_id: str

    @classmethod
    async def start(cls, core: Core, processes: AsyncProcesses, process: ProcessInfo, timeout: Optional[float] = None) -> "AsyncTerminal":
        terminal = cls(core, processes._one(process["processId"], "ws"), 0, timeout)
        terminal.process_id = process["processId"]
        await terminal.connect()
        return terminal
