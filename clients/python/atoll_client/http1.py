"""HTTP/1.1 as bytes (RFC 9112): heads of requests, heads and bodies of responses. Does no I/O."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from .errors import AtollConnectionError, protocol_error

MAX_HEAD_BYTES = 64 * 1024
MAX_CHUNK_LINE_BYTES = 1024


def encode_head(method: str, target: str, fields: Mapping[str, str]) -> bytes:
    """Raises ValueError for a value that would end its line."""
    lines = [f"{method} {target} HTTP/1.1"] + [f"{name}: {value}" for name, value in fields.items()]
    for line in lines:
        if any(character in line for character in "\r\n\0"):
            raise ValueError("a field of a request has a line break or a NUL")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def encode_chunk(piece: bytes) -> bytes:
    """`piece` is not empty: an empty chunk is the end."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class ResponseHead:
    status: int
    headers: Dict[str, str]  # names in lower case

    @property
    def keeps_connection(self) -> bool:
        return "close" not in self.headers.get("connection", "").lower()


class HeadParser:
    """Collects the head of a response; interim responses (1xx, but for 101) are read over."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def has_begun(self) -> bool:
        return bool(self._bytes)

    def feed(self, piece: bytes) -> Optional[Tuple[ResponseHead, bytes]]:
        """The head and the bytes behind it, once it is complete."""
        self._bytes += piece
        while (end := self._bytes.find(b"\r\n\r\n")) >= 0:
            head = _parse_head(bytes(self._bytes[:end]))
            del self._bytes[: end + 4]
            if head.status == 101 or head.status >= 200:
                return head, bytes(self._bytes)
        if len(self._bytes) > MAX_HEAD_BYTES:
            raise protocol_error("the head of the response is too long")
        return None


def _parse_head(text: bytes) -> ResponseHead:
    status_line, *lines = text.decode("latin-1").split("\r\n")
    parts = status_line.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or len(parts[1]) != 3 or not parts[1].isdigit():
        raise protocol_error("the response is not HTTP/1.1")
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise protocol_error("a field of the response is malformed")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return ResponseHead(int(parts[1]), headers)


class _At(enum.Enum):
    SIZE = 1
    DATA = 2
    DATA_END = 3
    TRAILER = 4


class BodyDecoder:
    """The body of a response: by Content-Length, in chunks, or up to the end of the connection."""

    def __init__(self, method: str, head: ResponseHead) -> None:
        self.is_done = False
        self._line = bytearray()
        self._at = _At.SIZE
        self._left: Optional[int] = None  # of the body or the chunk; None: to the end of the connection
        coding = head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length")
        self._is_chunked = coding == "chunked"
        if method == "HEAD" or head.status in (204, 304):
            self.is_done = True
        elif coding and not self._is_chunked:
            raise protocol_error(f"the response has the transfer coding {coding[:50]!r}")
        elif not self._is_chunked and length is not None:
            if not length.isdigit():
                raise protocol_error("the response has a bad Content-Length")
            self._left = int(length)
            self.is_done = self._left == 0
        self.ends_with_connection = not self.is_done and not self._is_chunked and self._left is None

    def feed(self, piece: bytes) -> bytes:
        """The bytes of the body in `piece`. What is behind the body's end is a protocol_error."""
        if self.is_done:
            if piece:
                raise protocol_error("there are bytes behind the response")
            return b""
        if self._is_chunked:
            return self._feed_chunked(piece)
        if self._left is None:
            return piece
        if len(piece) > self._left:
            raise protocol_error("there are bytes behind the response")
        self._left -= len(piece)
        self.is_done = self._left == 0
        return piece

    def feed_end(self) -> None:
        """The connection has ended."""
        if not self.is_done and not self.ends_with_connection:
            raise AtollConnectionError("connection_lost", "the connection ended inside a response")
        self.is_done = True

    def _feed_chunked(self, piece: bytes) -> bytes:
        out: List[bytes] = []
        position = 0
        while position < len(piece):
            if self.is_done:
                raise protocol_error("there are bytes behind the response")
            if self._at is _At.DATA:
                data = piece[position : position + (self._left or 0)]
                out.append(data)
                position += len(data)
                self._left = (self._left or 0) - len(data)
                if self._left == 0:
                    self._at = _At.DATA_END
                continue
            end = piece.find(b"\n", position)
            self._line += piece[position : end if end >= 0 else len(piece)]
            if len(self._line) > MAX_CHUNK_LINE_BYTES:
                raise protocol_error("a line between chunks is too long")
            if end < 0:
                break
            position = end + 1
            line = bytes(self._line.rstrip(b"\r"))
            self._line.clear()
            self._take_line(line)
        return b"".join(out)

    def _take_line(self, line: bytes) -> None:
        if self._at is _At.DATA_END:
            if line:
                raise protocol_error("a chunk is longer than it says")
            self._at = _At.SIZE
        elif self._at is _At.TRAILER:
            self.is_done = not line
        else:
            digits = line.partition(b";")[0].strip()
            if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
                raise protocol_error("a chunk has a bad size")
            self._left = int(digits, 16)
            self._at = _At.DATA if self._left else _At.TRAILER
