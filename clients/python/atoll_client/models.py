"""The answers of the API as values. Members that a server adds later stay readable: in `data`, `raw` or the Record itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Optional, TypedDict, Union
from urllib.parse import unquote_to_bytes

from .encoding import Record, encode_path
from .errors import AtollError, protocol_error, text_or_none

Content = Union[str, List[Dict[str, str]]]
ToolFormat = Literal["json-schema", "openai", "anthropic", "gemini"]


@dataclass(frozen=True)
class Event:
    """A numbered event of a conversation's log (docs/events.md)."""

    seq: int
    type: str
    at: str
    turn: Optional[str]
    data: Dict[str, Any]
    epoch: str = field(default="", repr=False, compare=False)  # of the log; empty where that is not known

    @classmethod
    def parse(cls, frame: Dict[str, Any], epoch: str = "") -> "Event":
        seq, data = frame.get("seq"), frame.get("data")
        if not isinstance(seq, int) or not isinstance(data, dict):
            raise protocol_error("an event has no seq or no data")
        return cls(seq, str(frame.get("type")), str(frame.get("at")), frame.get("turn"), data, epoch)

    @property
    def after(self) -> str:
        """The `after` of a call that goes on behind this event."""
        return f"{self.seq}-{self.epoch}" if self.epoch else str(self.seq)

    @property
    def text(self) -> str:
        """The text of a `text_delta`; empty for every other type."""
        return str(self.data.get("delta", "")) if self.type == "text_delta" else ""


@dataclass(frozen=True)
class Turn:
    """An accepted message: its events come after the number `after`."""

    turn: str
    after: int


@dataclass(frozen=True)
class Answer:
    """A turn that is over. `text` is all that was answered. `outcome` is the agent's own word for how it ended (`success`, `error`,
    `interrupted`, …), else the code of the last error, else None. `errors` are the data of its events `error`.
    """

    turn: Optional[str]
    text: str
    outcome: Optional[str]
    exit_code: Optional[int]
    errors: List[Dict[str, Any]]
    after: str  # that of a call that goes on behind it


class Gathering:
    """Makes an Answer of a turn's events."""

    def __init__(self) -> None:
        self._text: List[str] = []
        self._errors: List[Dict[str, Any]] = []
        self._ending: Dict[str, Any] = {}
        self._turn: Optional[str] = None

    def take(self, event: Event) -> None:
        self._turn = event.turn
        self._text.append(event.text)
        if event.type == "error":
            self._errors.append(event.data)
        elif event.type == "turn_complete":
            self._ending = event.data

    def answer(self, after: str) -> Answer:
        outcome = self._ending.get("result")
        if outcome is None and self._errors:
            outcome = self._errors[-1].get("code")
        return Answer(self._turn, "".join(self._text), text_or_none(outcome), self._ending.get("exitCode"), self._errors, after)


@dataclass(frozen=True)
class Token:
    token: str
    expires_at: str
    url: Optional[str] = None  # of scope `preview`: what a browser opens


class NetworkRoute(TypedDict, total=False):
    """An upstream that is served inside as plain HTTP at 127.0.0.1:3129/NAME/…; `name` and `upstream` are needed. `headers` are set by the server:
    a text, or `{"secret": name, "prefix": text}`, whose value programs inside never see. `paths` are exact or end in `*`.
    """

    name: str
    upstream: str
    headers: Dict[str, Union[str, Dict[str, str]]]
    methods: List[str]
    paths: List[str]
    git: bool


class NetworkHost(TypedDict, total=False):
    """A host, with port 443 unless another is named, whose requests over HTTPS get headers that programs inside never see; `host` and `headers` are
    needed. The members are as those of `NetworkRoute`.
    """

    host: str
    headers: Dict[str, Union[str, Dict[str, str]]]
    methods: List[str]
    paths: List[str]


class NetworkObject(TypedDict, total=False):
    """With the mode `egress`, `allow` has what programs inside reach: HOST, HOST:PORT, HOST:PORT/tcp, `*.HOST` or `@GROUP`; an object for a host
    whose requests get headers. With `ask` a host that is not listed waits for `conversation.decide_egress()`, after the event `egress_request`.
    """

    mode: Literal["none", "host", "egress"]
    allow: List[Union[str, NetworkHost]]
    routes: List[NetworkRoute]
    ask: bool


NetworkSettings = Union[Literal["none", "host"], NetworkObject]


class ConversationInfo(Record):
    """A conversation as the server describes it; /openapi.json says what each member means."""

    id: str
    title: Optional[str]
    agent: str
    status: str
    status_reason: Optional[str]
    user_id: Optional[str]
    sandbox_id: str
    generation: int
    sandbox_status: str
    sandbox_created_at: Optional[str]
    sandbox_public_url: Optional[str]
    open_ports: List[Record]
    open_turn: Optional[Record]
    limits: Record
    network: NetworkSettings
    preview: Record
    tools: Record
    metadata: Dict[str, Any]
    idle_seconds: int
    ttl_seconds: int
    created_at: str
    last_active_at: str
    log_epoch: str
    first_seq: int
    last_seq: int
    enforcement: Dict[str, str]


class SandboxInfo(Record):
    """A sandbox as the server describes it."""

    id: str
    conversation_id: Optional[str]
    user_id: Optional[str]
    generation: int
    status: str
    status_reason: Optional[str]
    sandbox_public_url: Optional[str]
    open_ports: List[Record]
    limits: Record
    network: NetworkSettings
    preview: Record
    tools: Optional[Record]
    metadata: Dict[str, Any]
    ttl_seconds: int
    created_at: str
    enforcement: Dict[str, str]


def preview_address(info: "Union[ConversationInfo, SandboxInfo]", port: Optional[int]) -> Optional[str]:
    """The address at which a browser sees a port, by default the first of those that are shown."""
    if port is None or port in info.preview.ports[:1]:
        return info.sandbox_public_url
    return next((each.url for each in info.open_ports if each.port == port), None)


class ProcessInfo(Record):
    """A process as the server describes it. `exit_code`, `signal` and `timed_out` are there once it has ended."""

    process_id: str
    pid: Optional[int]
    tag: Optional[str]
    restart: str
    status: str
    started_at: Optional[str]
    first_byte: int
    end_byte: int


def _output(answer: Dict[str, Any], name: str, coded_name: str) -> bytes:
    """Bytes that are not UTF-8 come as base64 under another name."""
    coded = answer.get(coded_name)
    if coded is not None:
        return base64.b64decode(coded)
    return str(answer.get(name, "")).encode()


class _Texts:
    """`stdout` and `stderr` as text, wrong UTF-8 replaced."""

    stdout_bytes: bytes
    stderr_bytes: bytes

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")


@dataclass(frozen=True)
class ExecResult(_Texts):
    """How a command ended. `exit_code` is None where `signal` ended it. `stdout` and `stderr` are text, wrong UTF-8 replaced."""

    exit_code: Optional[int]
    signal: Optional[Union[int, str]]
    timed_out: bool
    stdout_bytes: bytes
    stderr_bytes: bytes
    truncated: Dict[str, bool]
    duration_ms: int
    truncated_by: Optional[str] = None  # "user_share" or "capacity", where `max_output_bytes` did not cut it
    raw: Dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, answer: Dict[str, Any]) -> "ExecResult":
        return cls(
            answer.get("exitCode"),
            answer.get("signal"),
            bool(answer.get("timedOut")),
            _output(answer, "stdout", "stdoutBase64"),
            _output(answer, "stderr", "stderrBase64"),
            answer.get("truncated") or {},
            int(answer.get("durationMs") or 0),
            answer.get("truncatedBy"),
            answer,
        )


@dataclass(frozen=True)
class ExecOutput:
    """A piece of a command's output: `type` is `stdout` or `stderr`. The last one is `exit` and has the `result`."""

    type: str
    data: bytes = b""
    result: Optional[ExecResult] = None

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @classmethod
    def parse(cls, frame: Dict[str, Any]) -> "ExecOutput":
        if frame["type"] == "exit":
            return cls("exit", result=ExecResult.parse(frame))
        return cls(frame["type"], _output(frame, "text", "base64"))


@dataclass(frozen=True)
class FileEntry:
    """A file, directory or link of a sandbox. Give the entry itself to other calls: `path` is for people, and has U+FFFD for what is not
    UTF-8; `href` is the percent-encoded, exact path.
    """

    path: str
    name: str
    type: str
    size: int
    mode: Union[int, str, None]
    mtime: Optional[str]
    target: Optional[str] = None
    etag: Optional[str] = None
    href: str = ""
    raw: Dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, entry: Optional[Dict[str, Any]]) -> "FileEntry":
        entry = entry or {}
        path = str(entry.get("path", ""))
        href = str(entry.get("href", encode_path(path)))
        name = entry.get("name", path.rpartition("/")[2])
        size = int(entry.get("size") or 0)
        told = (entry.get(member) for member in ("mode", "mtime", "target", "etag"))
        return cls(path, name, str(entry.get("type", "")), size, *told, href=href, raw=entry)  # type: ignore[misc]

    def __fspath__(self) -> bytes:
        return unquote_to_bytes(self.href)


@dataclass(frozen=True)
class ProcessFrame:
    """A frame of a process that is followed: `stdout` and `stderr` have `data`; `started`, `dropped` and `exit` have `info`."""

    type: str
    data: bytes = b""
    info: Record = field(default_factory=Record)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @classmethod
    def parse(cls, frame: Dict[str, Any]) -> "ProcessFrame":
        kind = str(frame.get("type"))
        return cls(kind, _output(frame, "text", "base64")) if kind in ("stdout", "stderr") else cls(kind, info=frame)

    def end(self, offset: int) -> int:
        """The byte of the output behind it; `offset` is that before it."""
        if self.type == "started" and isinstance(self.info.get("after"), int):
            return int(self.info["after"])
        return offset + (int(self.info.get("bytes") or 0) if self.type == "dropped" else len(self.data))


@dataclass(frozen=True)
class ProcessOutput(_Texts):
    """A page of what a process has written, from byte `after` on. `next` is the `after` of the next page; `dropped` bytes at its beginning are not
    kept any more. `exit` is there once the process has ended and nothing comes behind the page.
    """

    after: int
    next: int
    dropped: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    exit: Optional[Record] = None

    @classmethod
    def parse(cls, page: Dict[str, Any]) -> "ProcessOutput":
        return cls(
            int(page["after"]),
            int(page["next"]),
            int(page.get("dropped") or 0),
            _output(page, "stdout", "stdoutBase64"),
            _output(page, "stderr", "stderrBase64"),
            page.get("exit"),
        )


class ToolResult(Record):
    """The answer of a tool, whether it succeeded or not. `technical_details` is for the model, `user_feedback` for the person."""

    success: bool
    data: Any
    user_feedback: str
    preview_refresh_needed: bool
    technical_details: Record
    changed_files: List[str]
    warnings: List[Any]
    suggestions: List[Any]


def closed_error(frame: Dict[str, Any]) -> AtollError:
    """The error that a `stream_closed` frame, or an `error` frame, tells."""
    after = frame.get("retryAfter")
    return AtollError(
        0,
        str(frame.get("code")),
        str(frame.get("detail") or ""),
        retry_after=after if isinstance(after, (int, float)) else None,
        log_epoch=text_or_none(frame.get("logEpoch")),
    )
