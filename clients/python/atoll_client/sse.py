"""Server-Sent Events: bytes in, JSON objects out. Does no I/O."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from .encoding import from_json
from .errors import protocol_error

# An agent's line has 1 MiB at most, and JSON may write a byte of it as six.
MAX_FRAME_BYTES = 16 * 1024 * 1024


class SseParser:
    """Comments and names of events are read over: the objects have a `seq` and a `type` of their own. `last_id` is the id of
    the last frame that had one."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._line = bytearray()
        self._data: List[bytes] = []
        self._data_bytes = 0
        self.last_id = ""

    def feed(self, piece: bytes) -> Iterator[Dict[str, Any]]:
        """The objects of the frames that `piece` completes. Raises protocol_error."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._line += piece[start:end]
            start = end + 1
            line = bytes(self._line[:-1] if self._line.endswith(b"\r") else self._line)
            self._line.clear()
            if line:
                self._take(line)
            elif self._data:
                yield self._object()
        self._line += piece[start:]
        self._check(len(self._line))

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value[1:] if value.startswith(b" ") else value)
            self._data_bytes += len(value)
            self._check(0)
        elif name == b"id":
            self.last_id = value.decode("utf-8", "replace").strip()

    def _check(self, line_bytes: int) -> None:
        if line_bytes + self._data_bytes > self._max_frame_bytes:
            raise protocol_error(f"an event of the stream has more than {self._max_frame_bytes} bytes")

    def _object(self) -> Dict[str, Any]:
        text = b"\n".join(self._data)
        self._data.clear()
        self._data_bytes = 0
        try:
            value = from_json(text)
        except ValueError:
            value = None
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise protocol_error("an event of the stream is no object with a type")
        return value
