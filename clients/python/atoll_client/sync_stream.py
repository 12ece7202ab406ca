"""Streams of the synchronous client."""

from __future__ import annotations

import threading
from typing import Any, Callable, Generic, TypeVar

from .blocking import Stopped, Stopper, run
from .core import Stream
from .encoding import Shown
from .errors import closed_client
from .following import EventStream
from .models import Event

T = TypeVar("T")


class SyncStream(Shown, Generic[T]):
    """An iterator that holds a connection: leave it by `with`, or close it with `close()`, which any thread may call.

    Where the client is closed instead, an iteration that would have had an end is AtollError `closed`, since a part is missing;
    one that is endless (`follow` of a conversation, `watch`) ends.
    """

    def __init__(self, source: "Stream[Any]", convert: Callable[[Any], T] = lambda item: item, is_endless: bool = False) -> None:
        self._source = source
        self._convert = convert
        self._stopper = Stopper()
        self._is_over = is_endless  # to be stopped is no loss: it had its end, or is closed by who reads it
        self._busy = threading.Lock()  # a thread is in the generator
        source.core.ends_with_me(self)

    def _place(self) -> str:
        return self._source._place()

    def __iter__(self) -> "SyncStream[T]":
        return self

    def __next__(self) -> T:
        try:
            with self._busy, self._stopper.guarding():
                self._stopper.check()
                return self._convert(run(self._source.__anext__()))
        except StopAsyncIteration:
            self._is_over = True
            raise StopIteration from None
        except Stopped:
            if self._is_over:
                raise StopIteration from None
            raise closed_client() from None
        finally:
            if self._stopper.is_stopped:
                self._end()

    def close(self) -> None:
        """Ends the iteration, also one that waits in another thread."""
        self._is_over = True
        self.end_with_client()

    def end_with_client(self) -> None:
        self._stopper.stop()
        self._end()

    def _end(self) -> None:
        if self._busy.acquire(blocking=False):
            try:
                run(self._source.aclose())
            finally:
                self._busy.release()
        # Else the thread that is in the generator ends it when it leaves.

    def __enter__(self) -> "SyncStream[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncEventStream(SyncStream[Event]):
    """A SyncStream of events that knows its place in the log."""

    _source: EventStream

    @property
    def after(self) -> str:
        """The last event's number, and of which log it is. Keep it, and give it as `after` next time."""
        return self._source.after
