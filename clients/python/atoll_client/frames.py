"""WebSocket frames (RFC 6455) as a client sends and reads them. Does no I/O; offers no extension."""

from __future__ import annotations

import base64
import enum
import hashlib
import os
import struct
from typing import Iterator, Tuple

from .errors import protocol_error

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Opcode(enum.IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


def new_handshake_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def handshake_answer(key: str) -> str:
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def _masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    stream = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(stream, "little")).to_bytes(size, "little")


def encode_frame(opcode: Opcode, payload: bytes) -> bytes:
    """A whole message as a single masked frame."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    mask = os.urandom(4)
    return head + mask + _masked(payload, mask)


def encode_close(code: int, reason: str = "") -> bytes:
    return encode_frame(Opcode.CLOSE, struct.pack("!H", code) + reason.encode()[:123])


def decode_close(payload: bytes) -> Tuple[int, str]:
    """1005 where the frame has no code."""
    if len(payload) < 2:
        return 1005, ""
    return struct.unpack("!H", payload[:2])[0], payload[2:].decode("utf-8", "replace")


class FrameDecoder:
    """Bytes of the server in, whole messages and control frames out."""

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_message_bytes = max_message_bytes
        self._bytes = bytearray()
        self._message = bytearray()
        self._opcode = Opcode.CONTINUATION  # of the message that has begun; CONTINUATION: none has

    def feed(self, piece: bytes) -> Iterator[Tuple[Opcode, bytes]]:
        """Raises protocol_error."""
        self._bytes += piece
        while (head := self._head()) is not None:
            first, start, size = head
            if len(self._bytes) < start + size:
                return
            payload = bytes(self._bytes[start : start + size])
            del self._bytes[: start + size]
            opcode = Opcode(first & 0x0F)
            if opcode >= Opcode.CLOSE:
                yield opcode, payload
                continue
            if opcode is not Opcode.CONTINUATION:
                self._opcode = opcode
            self._message += payload
            if first & 0x80:
                message = bytes(self._message)
                self._message.clear()
                opcode, self._opcode = self._opcode, Opcode.CONTINUATION
                yield opcode, message

    def _head(self) -> "Tuple[int, int, int] | None":
        """(first byte, where the payload begins, its size) of a frame whose head is there."""
        data = self._bytes
        if len(data) < 2:
            return None
        first, size, start = data[0], data[1], 2
        if size == 126:
            start = 4
        elif size == 127:
            start = 10
        if len(data) < start:
            return None
        if start > 2:
            size = int.from_bytes(data[2:start], "big")
        self._check(first, data[1], size)
        return first, start, size

    def _check(self, first: int, second: int, size: int) -> None:
        opcode = first & 0x0F
        if first & 0x70 or second & 0x80 or opcode not in Opcode.__members__.values():
            raise protocol_error("a WebSocket frame of the server is malformed")
        if opcode >= Opcode.CLOSE:
            if size > 125 or not first & 0x80:
                raise protocol_error("a WebSocket control frame of the server is malformed")
            return
        if (opcode == Opcode.CONTINUATION) != (self._opcode is not Opcode.CONTINUATION):
            raise protocol_error("a WebSocket message of the server has its parts in a wrong order")
        if size + len(self._message) > self._max_message_bytes:
            raise protocol_error(f"a WebSocket message of the server has more than {self._max_message_bytes} bytes")
