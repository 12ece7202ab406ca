"""Streams of numbered events that go on over connections that end."""

from __future__ import annotations

from typing import AsyncGenerator, Callable, Optional

from .core import Core, Request, Stream, aclosing, frames_of, prepare
from .errors import AtollConnectionError, AtollError
from .models import Event, closed_error
from .retry import Follower, Repeatable, Step, may_repeat


async def follow_events(
    core: Core, follower: Follower, request: Callable[[], Request], part: Optional["Part"] = None
) -> AsyncGenerator[Event, None]:
    """Events as they come, over connections that end. Without a part to the end of the conversation, else to `done`."""
    while True:
        error: AtollError = AtollConnectionError("connection_lost", "the stream ended without a word")
        try:
            asked = request()
            response = await core.open_events(asked, 0)
            follower.opened()
            is_silent = True
            async with aclosing(frames_of(response, follower.take_id)) as frames:
                async for frame in frames:
                    is_silent = False
                    if frame["type"] == "stream_closed":
                        error = closed_error(frame)
                        continue
                    event = follower.accept(frame)
                    if event is not None and (part is None or part.has(event)):
                        yield event
                        if part is not None and event.type == "done":
                            return
            if is_silent and part is not None and await part.is_over(follower):
                return
        except AtollError as failure:
            error = failure
        if part is not None and part.is_lost(follower, error):
            raise error
        step = follower.ended(error)
        if step is Step.STOP:
            if part is not None:
                raise error
            return
        await prepare(core, follower, step, error, asked.path)


class Part:
    """The events of a stream that ends with `done`: all of them, unless a subclass says otherwise."""

    def has(self, event: Event) -> bool:
        return True

    def is_lost(self, follower: Follower, error: AtollError) -> bool:
        """True if another connection would be in vain."""
        return False

    async def is_over(self, follower: Follower) -> bool:
        """True if there is nothing behind the follower's place. It is asked where a connection ended without a word."""
        return False


class OneTurn(Part):
    """The events of one turn. It is known with the first one."""

    def __init__(self) -> None:
        self.name: Optional[str] = None

    def has(self, event: Event) -> bool:
        """True if an event belongs to the turn: behind a break of the connection there are others, too."""
        if self.name is None:
            self.name = event.turn
        return event.turn == self.name

    def is_lost(self, follower: Follower, error: AtollError) -> bool:
        """True if the turn has not begun and will not, or if its events are gone."""
        if error.code == "seq_expired" and self.name is not None:
            return True
        return error.status >= 500 and not may_repeat(Repeatable.YES, error) and not follower.is_known


class EventStream(Stream[Event]):
    """A Stream of events that knows its place in the log."""

    def __init__(self, core: Core, source: AsyncGenerator[Event, None], follower: Follower) -> None:
        super().__init__(core, source)
        self._follower = follower

    @property
    def after(self) -> str:
        """The last event's number, and of which log it is. Keep it, and give it as `after` next time."""
        return self._follower.cursor

    def _place(self) -> str:
        return f"after {self.after}"
