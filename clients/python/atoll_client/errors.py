"""Errors: refusals of the server, and connections that break."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Dict, Mapping, Optional, Tuple, Type


class AtollError(Exception):
    """A refusal. `code` is stable: decide by it. `detail` is for a human.

    `status` is the HTTP status; 0 where there is none: an error inside a stream, or one of the client itself.
    `retry_after` is in seconds, where the server named a time. `budget` is the one without room, for `user_share` and `capacity`. `log_epoch` is that of the log that is there, for `log_replaced`.
    """

    is_final = False  # what renew_token met: whoever asked for the token hears of it, whatever its code says

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        pointer: Optional[str] = None,
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
        log_epoch: Optional[str] = None,
        budget: Optional[str] = None,
    ) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.status = status
        self.code = code
        self.detail = detail
        self.pointer = pointer
        self.request_id = request_id
        self.retry_after = retry_after
        self.log_epoch = log_epoch
        self.budget = budget

    def __reduce__(self) -> Any:
        # Subclasses are made from other arguments than the exception's own.
        return _restored, (type(self), self.args, self.__dict__.copy())


def _restored(kind: Type[AtollError], arguments: Tuple[Any, ...], members: Dict[str, Any]) -> AtollError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(members)
    return error


class AtollConnectionError(AtollError, ConnectionError):
    """No connection (`connection_failed`), one that broke (`connection_lost`), or no answer in time (`timeout`).

    `was_sent` is false where the server cannot have seen the request.
    """

    def __init__(self, code: str, detail: str = "", was_sent: bool = True) -> None:
        super().__init__(0, code, detail)
        self.was_sent = was_sent


def protocol_error(detail: str) -> AtollConnectionError:
    """The peer does not speak HTTP, Server-Sent Events or WebSocket as it should."""
    return AtollConnectionError("protocol_error", detail)


def closed_client() -> AtollError:
    """The error of a call that a closed client has not completed and never will."""
    return AtollError(0, "closed", "the client is closed")


def retry_after_seconds(value: Optional[str]) -> Optional[float]:
    """The field Retry-After in seconds from now: a number, or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())


def text_or_none(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def error_of_response(status: int, headers: Mapping[str, str], body: bytes) -> AtollError:
    """The error of a response that is none of success; a body that is no problem document gives `http_STATUS`."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    code = problem.get("code")
    detail = problem.get("detail")
    pointer = problem.get("pointer")
    if not isinstance(detail, str):
        detail = body[:200].decode("utf-8", "replace")
        if 300 <= status < 400:
            detail = f"the answer leads to {headers.get('location', 'nowhere')}: give the address of the server itself"
    return AtollError(
        status,
        code if isinstance(code, str) else f"http_{status}",
        detail,
        text_or_none(pointer),
        headers.get("x-request-id"),
        retry_after_seconds(headers.get("retry-after")),
        text_or_none(problem.get("logEpoch")),
        text_or_none(problem.get("budget")),
    )
