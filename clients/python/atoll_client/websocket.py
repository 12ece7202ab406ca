"""A WebSocket of the client: opening, messages, pings, the close."""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Deque, Dict, Mapping, Optional, Tuple, Union

from . import frames
from .core import MAX_PROBLEM_BYTES, SILENCE_S, Core, Request, Response
from .encoding import from_json
from .errors import AtollConnectionError, AtollError, error_of_response, protocol_error, text_or_none
from .frames import Opcode

WRITE_TIMEOUT_S = 30.0


class WebSocketClosed(AtollError):
    """The server closed it. `code` is the word in the close frame's reason, else `closed_NUMBER`."""

    def __init__(self, number: int, reason: str) -> None:
        try:
            told = json.loads(reason)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            told = {}
        word, detail = str(told.get("code") or f"closed_{number}"), str(told.get("detail") or reason)
        super().__init__(0, word, detail, log_epoch=text_or_none(told.get("logEpoch")))
        self.number = number


class WebSocket:
    def __init__(self, response: Response) -> None:
        # The connection is the WebSocket's from now on.
        assert response._connection is not None
        self._connection = response._connection
        self._decoder = frames.FrameDecoder()
        self._messages: Deque[Tuple[Opcode, bytes]] = deque(self._decoder.feed(response._rest or b""))
        self._closed: Optional[AtollError] = None

    @classmethod
    async def open(cls, core: Core, path: str, query: Mapping[str, Any], timeout: Optional[float] = None) -> "WebSocket":
        """`timeout` is the handshake's."""
        key = frames.new_handshake_key()
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        response = await core.exchange(Request("GET", path, query, upgrade, timeout=timeout))
        if response.status != 101:
            raise error_of_response(response.status, response.headers, await response.read_all(MAX_PROBLEM_BYTES))
        if response.headers.get("sec-websocket-accept") != frames.handshake_answer(key):
            response.close()
            raise protocol_error("the answer to the WebSocket's handshake is wrong")
        return cls(response)

    async def receive(self) -> Union[Dict[str, Any], bytes]:
        """The next message: an object, or bytes. Raises WebSocketClosed, AtollConnectionError."""
        while True:
            while self._messages:
                opcode, payload = self._messages.popleft()
                if opcode is Opcode.BINARY:
                    return payload
                if opcode is Opcode.TEXT:
                    return self._object(payload)
                await self._control(opcode, payload)
            if self._closed is not None:
                raise self._closed
            # The server pings: silence means that it is gone.
            piece = await self._connection.read_some(SILENCE_S)
            if not piece:
                raise AtollConnectionError("connection_lost", "the connection ended without a close frame")
            self._messages.extend(self._decoder.feed(piece))

    def _object(self, payload: bytes) -> Dict[str, Any]:
        try:
            value = from_json(payload)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise protocol_error("a text frame of the server is no object")
        return value

    async def _control(self, opcode: Opcode, payload: bytes) -> None:
        if opcode is Opcode.PING:
            await self._write(frames.encode_frame(Opcode.PONG, payload))
        elif opcode is Opcode.CLOSE:
            if self._closed is None:
                number, reason = frames.decode_close(payload)
                self._closed = WebSocketClosed(number, reason)
                try:
                    await self._write(frames.encode_frame(Opcode.CLOSE, payload[:2]))
                except AtollConnectionError:
                    pass
                self._connection.close()
            raise self._closed

    async def _write(self, frame: bytes) -> None:
        await self._connection.write(frame, WRITE_TIMEOUT_S)

    async def send_bytes(self, data: bytes) -> None:
        await self._write(frames.encode_frame(Opcode.BINARY, data))

    async def send_object(self, value: Dict[str, Any]) -> None:
        await self._write(frames.encode_frame(Opcode.TEXT, json.dumps(value).encode()))

    def abandon(self) -> None:
        """Gives up a connection that broke."""
        self._connection.close()

    async def aclose(self) -> None:
        """Says so, where that can be done at once, and leaves; does not wait for the server's answer."""
        if self._closed is None:
            self._closed = AtollError(0, "closed", "this end closed it")
            try:
                await self._connection.write_last(frames.encode_close(1000), WRITE_TIMEOUT_S)
            except AtollConnectionError:
                pass
            self._connection.close()
