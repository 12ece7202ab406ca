"""When a request or a stream is tried again, and after how long. Pure: the callers wait and connect."""

from __future__ import annotations

import enum
import random
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Optional, Union

from .errors import AtollConnectionError, AtollError
from .models import Event

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 10.0
# A request waits for no `Retry-After` that is longer; a stream does.
LONGEST_RETRY_AFTER_S = 30.0
# So often in a row a new token may be refused before the callback is taken to be wrong.
MAX_RENEWALS = 3
# A connection that stood for so long was a success, even if nothing came over it.
STEADY_S = 10.0

_OVER = ("conversation_ended", "sandbox_gone", "disk_full", "not_found")
TOKEN_CODES = ("token_expired", "unauthorized", "invalid_token")
# Refusals with 503 that come before any work. `shutting_down` may end a command that runs.
_NOT_BEGUN = ("capacity", "too_many_processes")
# The answers of a proxy that does not reach the server, or lost it.
_BY_A_PROXY = ("http_502", "http_503", "http_504")


class Backoff:
    """Waits that double up to a bound, each shortened at random by up to a half, so that clients do not come together."""

    def __init__(self, rng: Optional[random.Random] = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._random = rng or random.Random()
        self._clock = clock
        self._opened_at: Optional[float] = None
        self.failures = 0

    def opened(self) -> None:
        """A connection stands from now on."""
        self._opened_at = self._clock()

    def succeeded(self) -> None:
        self.failures = 0

    def ended(self) -> None:
        """The connection has ended. A proxy that cuts quiet connections is no failure; a server that cuts each at once is."""
        if self._opened_at is not None and self._clock() - self._opened_at >= STEADY_S:
            self.failures = 0
        self._opened_at = None

    def next_wait(self, retry_after: Optional[float] = None) -> float:
        """Seconds; never less than the server asked for."""
        most = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(self.failures, 10))
        self.failures += 1
        wait = most * self._random.uniform(0.5, 1)
        return wait if retry_after is None else max(wait, retry_after * self._random.uniform(1, 1.2))


class Repeatable(enum.Enum):
    """Says when a request may be sent a second time."""

    YES = 1  # it changes nothing, or has an Idempotency-Key
    IF_REFUSED = 2  # where the server has surely done nothing
    NO = 3  # its body is gone


def may_repeat(kind: Repeatable, error: AtollError) -> bool:
    if error.code == "no_token":
        return True  # nothing was sent
    if kind is Repeatable.NO:
        return isinstance(error, AtollConnectionError) and not error.was_sent and error.code == "connection_failed"
    if isinstance(error, AtollConnectionError):
        return error.code != "protocol_error" and (kind is Repeatable.YES or not error.was_sent)
    if kind is Repeatable.YES and error.code in _BY_A_PROXY and error.retry_after is None:
        return True
    if error.retry_after is None or error.retry_after > LONGEST_RETRY_AFTER_S:
        return False
    return error.status == 429 or error.status == 503 and (kind is Repeatable.YES or error.code in _NOT_BEGUN)


class Step(enum.Enum):
    RECONNECT = 1  # after `wait_s`
    RENEW = 2  # the same, with a new token
    STOP = 3  # nothing more will come
    RAISE = 4  # the error is for the caller


@dataclass(frozen=True)
class StreamStatus:
    """How a stream is: `live`, or `waiting` for the next try, for `wait_s` seconds, after `error`."""

    state: str
    error: Optional[AtollError] = None
    wait_s: float = 0.0


class Follower:
    """Follows numbered events over connections that end: which of them are new, and what to do after each end."""

    def __init__(
        self,
        after: Union[int, str],
        can_renew: bool,
        max_failures: Optional[int] = None,
        rng: Optional[random.Random] = None,
        on_reset: Optional[Callable[[], Any]] = None,
        on_gap: Optional[Callable[[int, int], Any]] = None,
        on_status: Optional[Callable[[StreamStatus], Any]] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        seq, _, self.epoch = str(after).partition("-")
        self.after = int(seq)
        self._on_reset = on_reset
        self._on_gap = on_gap
        self._on_status = on_status
        self._lost: Optional[int] = None  # what came last before a gap
        self.was_live = False  # the connection that ended last had been accepted
        self._is_live = False
        self.wait_s = 0.0
        self.is_known = False  # a connection was accepted
        self._can_renew = can_renew
        self._refused_tokens = 0  # in a row
        self._max_failures = max_failures
        self._backoff = Backoff(rng, clock)

    @property
    def cursor(self) -> str:
        """Where the next connection goes on: the number of the last event, and of which log it is."""
        return f"{self.after}-{self.epoch}" if self.after and self.epoch else str(self.after)

    def take_id(self, event_id: str) -> None:
        """The id of an event that comes next says of which log it is. Raises log_replaced for another one than before."""
        epoch = event_id.partition("-")[2]
        if epoch and self.epoch and self.after and epoch != self.epoch:
            raise AtollError(0, "log_replaced", "the stream goes on with another log", log_epoch=epoch)
        self.epoch = epoch or self.epoch

    def opened(self) -> None:
        """The server accepted a connection: the conversation is there, and so is the token good."""
        self.is_known = True
        self._is_live = True
        self._refused_tokens = 0
        self._backoff.opened()
        if self._on_status is not None:
            self._on_status(StreamStatus("live"))

    def succeeded(self) -> None:
        """Something new came: what failed before is over."""
        self._backoff.succeeded()

    def accept(self, frame: Dict[str, Any]) -> Optional[Event]:
        """The event of a frame; None for one that was there before."""
        event = Event.parse(frame, self.epoch)
        if event.type == "session_start" and event.data.get("logEpoch"):
            self.epoch = str(event.data["logEpoch"])
            event = replace(event, epoch=self.epoch)
        if event.seq <= self.after:
            return None
        self.succeeded()
        self.after = event.seq
        lost, self._lost = self._lost, None
        if lost is not None and self._on_gap is not None and event.seq > lost + 1:
            self._on_gap(lost, event.seq)
        return event

    def waiting(self, error: AtollError) -> None:
        """The next try comes after `wait_s`."""
        if self._on_status is not None:
            self._on_status(StreamStatus("waiting", error, self.wait_s))

    def ended(self, error: AtollError) -> Step:
        """A connection ended, by a refusal, by `stream_closed`, or since it broke."""
        self._backoff.ended()
        self.was_live, self._is_live = self._is_live, False
        if error.is_final:
            return Step.RAISE
        if error.code in _OVER:
            return Step.STOP if self.is_known else Step.RAISE
        if error.code in TOKEN_CODES:
            if not self._can_renew or self._refused_tokens >= MAX_RENEWALS:
                return Step.RAISE
            # The first time at once: that a token expires is no failure.
            self.wait_s = self._backoff.next_wait() if self._refused_tokens else 0.0
            self._refused_tokens += 1
            return Step.RENEW
        if error.code == "log_replaced":
            if self._on_reset is None:
                return Step.RAISE
            # The events seen so far are of another log: this one is followed from its beginning.
            self.after = 0
            self._lost = None
            self.epoch = error.log_epoch or self.epoch
            self._on_reset()
        elif error.code == "seq_expired" and self.after > 0:
            # The log begins later than `after`: none of its events was seen.
            self._lost = self.after
            self.after = 0
        elif error.code == "protocol_error" or 300 <= error.status < 500 and error.status not in (408, 429):
            return Step.RAISE
        elif error.budget is not None and error.retry_after is None:
            return Step.RAISE  # waiting frees nothing
        if self._max_failures is not None and self._backoff.failures >= self._max_failures:
            return Step.RAISE
        self.wait_s = self._backoff.next_wait(error.retry_after)
        return Step.RECONNECT
