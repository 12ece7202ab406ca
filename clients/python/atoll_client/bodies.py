"""Bodies of requests: bytes, or something that gives them piece by piece and is never held as a whole."""

from __future__ import annotations

import os
import stat
from typing import Any, AsyncIterable, AsyncIterator, BinaryIO, Iterable, Optional, Union

from .errors import AtollError
from .transport import Network

PIECE_BYTES = 256 * 1024

BodySource = Union[bytes, bytearray, memoryview, str, BinaryIO, Iterable[bytes], AsyncIterable[bytes]]


class Body:
    """`length` is None where it is not known: then the body goes in chunks. Text is sent as UTF-8."""

    def __init__(self, source: BodySource, network: Network) -> None:
        self._network = network
        self.whole: Optional[bytes] = None
        if isinstance(source, str):
            source = source.encode("utf-8")
        if isinstance(source, (bytes, bytearray, memoryview)):
            self.whole = bytes(source)
        self._source: Any = source
        self.length = len(self.whole) if self.whole is not None else _length_left(source)
        self.is_repeatable = self.whole is not None

    async def pieces(self) -> AsyncIterator[bytes]:
        """Exactly `length` bytes, where that is known; a source that has fewer is an error."""
        sent = 0
        async for piece in self._raw_pieces():
            if self.length is not None and sent + len(piece) > self.length:
                piece = piece[: self.length - sent]  # the file grew
            if piece:
                sent += len(piece)
                yield piece
            if sent == self.length:
                return
        if self.length is not None and sent < self.length:
            raise AtollError(0, "body_too_short", f"the source ended after {sent} of {self.length} bytes")

    async def _raw_pieces(self) -> AsyncIterator[bytes]:
        source = self._source
        if self.whole is not None:
            yield self.whole
        elif hasattr(source, "read"):
            while piece := await self._network.run_blocking(source.read, PIECE_BYTES):
                if not isinstance(piece, bytes):
                    raise TypeError("the file gives text: open it with mode 'rb'")
                yield piece
        elif hasattr(source, "__aiter__"):
            async for piece in source:
                yield piece
        else:
            for piece in source:
                yield piece


def _length_left(source: Any) -> Optional[int]:
    """The bytes from a file's position to its end; None for what has no end that is known."""
    try:
        status = os.fstat(source.fileno())
        return status.st_size - source.tell() if stat.S_ISREG(status.st_mode) else None
    except (AttributeError, OSError, ValueError):
        pass
    try:
        position = source.tell()
        end = source.seek(0, os.SEEK_END)
        source.seek(position)
        return int(end) - int(position)
    except (AttributeError, OSError, ValueError):
        return None
