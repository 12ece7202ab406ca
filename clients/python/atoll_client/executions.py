"""Code mode, asynchronous: programs that a model wrote, their executions, and the calls of tools that they make (docs/code-mode.md)."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, AsyncGenerator, Callable, Dict, List, Mapping, Optional, Sequence, TypedDict, Union

from .core import SILENCE_S, Core, Request, Stream, aclosing, frames_of
from .encoding import Record, Shown, given, segment, to_json
from .errors import AtollConnectionError, AtollError, protocol_error
from .following import EventStream, Part, follow_events
from .models import Event, Token, closed_error
from .retry import Follower

if TYPE_CHECKING:
    from typing_extensions import Unpack
else:
    # So that typing.get_type_hints works at run time, too.
    try:
        from typing import Unpack
    except ImportError:  # before Python 3.11

        class Unpack:
            def __class_getitem__(cls, item: Any) -> Any:
                return item

ROUTE = "/v1/executions"
# The most characters of an exception's text for a program; the server takes 16 KiB.
MAX_MESSAGE_CHARACTERS = 4000
# The codes of an answer that came too late: somebody else was faster, or the program has ended.
_SETTLED = ("call_answered", "execution_ended")
# Between two looks at a call that waits for the decision of somebody else.
DECISION_WAIT_S = 0.5


class ProgramTool(TypedDict, total=False):
    """A tool that a program may call as `codemode.NAME(…)`."""

    name: str
    description: str
    inputSchema: Dict[str, Any]
    policy: str  # `allow`, `ask` or `deny`


class ExecuteOptions(TypedDict, total=False):
    """The options of a program; docs/code-mode.md has the defaults."""

    language: str
    executor: str
    timeout_ms: int
    memory_mb: int
    cpu_percent: int
    max_output_bytes: int
    max_calls: int
    user_id: str
    tools: Sequence[ProgramTool]
    sandbox_tools: Union[str, Sequence[str]]  # for execute of a sandbox: `none`, or names; without it all but run_command


class Executor(TypedDict, total=False):
    """An engine that runs programs."""

    name: str
    available: bool
    reason: str
    version: Optional[str]
    languages: List[str]
    isolates: str
    weaknesses: List[str]


class ExecutionInfo(Record):
    """An execution as the server describes it. `outcome` is None while it has not ended."""

    execution_id: str
    user_id: Optional[str]
    status: str
    executor: str
    language: str
    detached: bool
    created_at: str
    ended_at: Optional[str]
    last_seq: int
    open_calls: List[Record]
    outcome: Optional[Record]


@dataclass(frozen=True)
class ExecutionCall:
    """A call of a tool that waits: for a decision where `policy` is `ask`, then for whoever answers it (`caller` or `sandbox`)."""

    call_id: str
    name: str
    args: List[Any]
    policy: str
    answered_by: str

    @classmethod
    def parse(cls, data: Dict[str, Any]) -> "ExecutionCall":
        """Makes a call from the data of an event `tool_call`."""
        return cls(data["callId"], data["name"], data["args"], data["policy"], data["answeredBy"])


@dataclass(frozen=True)
class ExecutionResult:
    """The outcome of a program. `error` has `kind` and `message`, and `line` where that is known; then there is no `result`."""

    result: Any
    error: Optional[Dict[str, Any]]
    logs: List[Dict[str, str]]
    calls: List[Dict[str, Any]]
    duration_ms: int
    executor: str
    execution_id: Optional[str]
    # The keywords of the tools' schemas that the server cannot check: {tool, keyword, why}.
    warnings: List[Dict[str, str]] = field(default_factory=list)
    raw: Dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, answer: Dict[str, Any]) -> "ExecutionResult":
        return cls(
            answer.get("result"),
            answer.get("error"),
            answer.get("logs") or [],
            answer.get("calls") or [],
            int(answer.get("durationMs") or 0),
            str(answer.get("executor")),
            answer.get("executionId"),
            answer.get("warnings") or [],
            answer,
        )

    @property
    def ok(self) -> bool:
        return self.error is None


class ToolDeclarations(str):
    """The text. `warnings`: what the server cannot check of the tools' schemas, {tool, keyword, why} each."""

    warnings: List[Dict[str, str]]

    def __new__(cls, text: str, warnings: List[Dict[str, str]]) -> "ToolDeclarations":
        made = super().__new__(cls, text)
        made.warnings = warnings
        return made


Handlers = Mapping[str, Callable[..., Any]]
Decide = Callable[[ExecutionCall], Any]


def _execute_body(code: str, options: Mapping[str, Any], **more: Any) -> Dict[str, Any]:
    return {"code": code, **given(**options, **more)}


def _with_handlers(options: "ExecuteOptions", handlers: Handlers) -> "ExecuteOptions":
    """A handler without a tool of its name is a tool that takes anything."""
    tools = list(options.get("tools") or [])
    named = {tool["name"] for tool in tools}
    return {**options, "tools": [*tools, *({"name": name} for name in handlers if name not in named)]}  # type: ignore[typeddict-item]


class AsyncExecutes(Shown):
    """Running programs: of the client, and of a sandbox, whose tools the program may then call."""

    def __init__(self, core: Core, execute_route: str) -> None:
        self._core = core
        self._execute_route = execute_route

    async def execute(
        self,
        code: str,
        handlers: Optional[Handlers] = None,
        decide: Optional[Decide] = None,
        timeout: Optional[float] = None,
        **options: "Unpack[ExecuteOptions]",
    ) -> ExecutionResult:
        """Runs a program to its end. What the program does wrong is in the result, and no exception.

        `handlers` answer the calls of `codemode.NAME(…)` with the arguments of the call, one after another; an exception is one
        in the program. `decide(call)` says whether a call of a tool with policy `ask` may go on; without it none may. Both may be
        coroutine functions in the asynchronous client. The run ends with its connection, and is not begun again.
        """
        if handlers is None and decide is None:
            body = _execute_body(code, options)
            answer = await self._core.call("POST", self._execute_route, json=body, timeout=self._core.long(timeout))
            return ExecutionResult.parse(answer)
        stream = self.execute_stream(code, timeout, **_with_handlers(options, handlers or {}))
        return await _outcome(self._core, stream, None, handlers or {}, decide, is_alone=True)

    def execute_stream(self, code: str, timeout: Optional[float] = None, **options: "Unpack[ExecuteOptions]") -> Stream[Event]:
        """The same as it happens: `start`, `log`, `tool_call`, `result`, `done`. Calls are answered with the `answer`, `fail` and
        `decide` of `execution(id)`. The run ends when the stream is left.
        """
        # It is silent while it waits for its turn.
        seconds = self._core.long(timeout)
        quiet = SILENCE_S if timeout is None else timeout
        request = Request("POST", self._execute_route, json=_execute_body(code, options), timeout=seconds, body_timeout=quiet)
        return Stream(self._core, self._events(request))

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        response = await self._core.open_events(request)
        async with aclosing(frames_of(response)) as frames:
            async for frame in frames:
                if frame["type"] == "stream_closed":
                    raise closed_error(frame)
                event = Event.parse(frame)
                yield event
                if event.type == "done":
                    return
        raise AtollConnectionError("connection_lost", "the stream ended before the program did")

    async def execute_detached(
        self, code: str, timeout: Optional[float] = None, **options: "Unpack[ExecuteOptions]"
    ) -> "AsyncExecution":
        """Begins a run that goes on without its client. `await execution.result()` waits for its end."""
        body = _execute_body(code, options, detached=True)
        answer = await self._core.call("POST", self._execute_route, json=body, timeout=timeout)
        return AsyncExecution(self._core, answer["executionId"])


class AsyncExecution(Shown):
    """A run of a program. `info` is what the server said last; `await refresh()` asks again, until 10 minutes after its end."""

    def __init__(self, core: Core, execution_id: str, info: Optional[ExecutionInfo] = None) -> None:
        self._core = core
        self.id = execution_id
        self.info = info or ExecutionInfo()
        self._route = f"{ROUTE}/{segment(execution_id)}"

    async def refresh(self, timeout: Optional[float] = None) -> ExecutionInfo:
        self.info = await self._core.call("GET", self._route, timeout=timeout)
        return self.info

    def follow(self, after: Union[int, str] = 0, max_failures: Optional[int] = None, timeout: Optional[float] = None) -> EventStream:
        """Its events after the number `after`, each once, to `done`, over connections that break."""
        follower = Follower(after, self._core.credentials.can_renew, max_failures)

        def request() -> Request:
            return Request("GET", f"{self._route}/events", {"after": follower.cursor}, timeout=timeout)

        return EventStream(self._core, follow_events(self._core, follower, request, _OneRun(self)), follower)

    async def _page(self, after: int) -> List[Dict[str, Any]]:
        """The first of its events after the number `after` that are there now."""
        return (await self._core.call("GET", f"{self._route}/events", {"after": after}))["events"]

    async def result(
        self,
        handlers: Optional[Handlers] = None,
        decide: Optional[Decide] = None,
        max_failures: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> ExecutionResult:
        """Waits for its end. `handlers` and `decide` are those of `execute`; other calls are left to whoever else answers them.

        A handler is called for what is open, and not for what has its answer. Without `decide` it waits until somebody else has
        allowed the call, and calls behind that one wait, too.
        """
        events = self.follow(max_failures=max_failures, timeout=timeout)
        return await _outcome(self._core, events, self, handlers or {}, decide, is_alone=False, timeout=timeout)

    async def _say(self, call_id: str, answer: Dict[str, Any], timeout: Optional[float]) -> None:
        # The first answer counts.
        await self._core.call("POST", f"{self._route}/calls/{segment(call_id)}", json=answer, is_safe=True, timeout=timeout)

    async def answer(self, call_id: str, result: Any, timeout: Optional[float] = None) -> None:
        """Gives the program the result of a call. AtollError `call_answered` where it has its answer."""
        await self._say(call_id, {"result": result}, timeout)

    async def fail(self, call_id: str, message: str, timeout: Optional[float] = None) -> None:
        """The call is an exception in the program."""
        # JSON in UTF-8 has no lone surrogates.
        text = message.encode("utf-8", "replace").decode()
        await self._say(call_id, {"error": {"message": text}}, timeout)

    async def decide(self, call_id: str, is_allowed: bool, timeout: Optional[float] = None) -> None:
        """Allows or denies a call with policy `ask`. An allowed call then still waits for its answer."""
        await self._say(call_id, {"decision": "allow" if is_allowed else "deny"}, timeout)

    async def cancel(self, timeout: Optional[float] = None) -> ExecutionInfo:
        self.info = await self._core.call("DELETE", self._route, is_safe=True, timeout=timeout)
        return self.info

    async def create_token(self, scope: str = "read", ttl_seconds: Optional[int] = None, timeout: Optional[float] = None) -> Token:
        """A token for a browser: `read` opens the events, `chat` the WebSocket, too."""
        body = given(scope=scope, ttl_seconds=ttl_seconds)
        answer = await self._core.call("POST", f"{self._route}/tokens", json=body, timeout=timeout)
        return Token(answer["token"], answer["expiresAt"])


class _OneRun(Part):
    """The events of a run. The server ends a stream from behind the last one without a word."""

    def __init__(self, execution: AsyncExecution) -> None:
        self._execution = execution

    async def is_over(self, follower: Follower) -> bool:
        if follower.after == 0:
            return False
        # A token opens the events alone, so the last event is looked for first.
        events = await self._execution._page(follower.after - 1)
        if events:
            return any(event["type"] == "done" and event["seq"] <= follower.after for event in events)
        info = await self._execution.refresh()
        return info["status"] == "ended" and info["lastSeq"] <= follower.after


class AsyncExecutions(Shown):
    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, execution_id: str, timeout: Optional[float] = None) -> AsyncExecution:
        execution = AsyncExecution(self._core, execution_id)
        await execution.refresh(timeout)
        return execution

    def list(self, user_id: Optional[str] = None, limit: Optional[int] = None, timeout: Optional[float] = None) -> Stream[AsyncExecution]:
        """The executions that run, wait or ended within the last 10 minutes, the latest first; `limit` is of a page."""
        return Stream(self._core, self._list(given(user_id=user_id, limit=limit), timeout))

    async def _list(self, query: Dict[str, Any], timeout: Optional[float]) -> AsyncGenerator[AsyncExecution, None]:
        async for info in self._core.pages(ROUTE, query, "executions", timeout):
            yield AsyncExecution(self._core, info["executionId"], info)  # type: ignore[arg-type]

    async def executors(self, timeout: Optional[float] = None) -> List[Executor]:
        """The engines, whether each can run programs here, and what it isolates."""
        return (await self._core.call("GET", "/v1/executors", timeout=timeout))["executors"]

    async def prompt(self, tools: Sequence[ProgramTool], timeout: Optional[float] = None) -> ToolDeclarations:
        """Tools as TypeScript declarations, for the prompt of a model."""
        body = {"tools": list(tools)}
        answer = await self._core.call("POST", "/v1/executors/prompt", json=body, is_safe=True, timeout=timeout)
        return ToolDeclarations(answer["declarations"], answer.get("warnings") or [])


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _outcome(
    core: Core,
    events: Stream[Event],
    execution: Optional[AsyncExecution],
    handlers: Handlers,
    decide: Optional[Decide],
    is_alone: bool,
    timeout: Optional[float] = None,
) -> ExecutionResult:
    """Answers calls until the program has ended. `is_alone`: nobody else answers."""
    logs: List[Dict[str, str]] = []
    outcome: Optional[Dict[str, Any]] = None
    attendant: Optional[_Attendant] = None if execution is None else _Attendant(core, execution, handlers, decide, is_alone, timeout)
    async with events:
        async for event in events:
            if event.type == "start" and attendant is None:
                execution = AsyncExecution(core, event.data["executionId"])
                attendant = _Attendant(core, execution, handlers, decide, is_alone, timeout)
            elif event.type == "log":
                logs.append(event.data)
            elif event.type == "tool_call" and attendant is not None:
                try:
                    await attendant.take(event.seq, ExecutionCall.parse(event.data))
                except AtollError as error:
                    if error.code not in _SETTLED:
                        raise
            elif event.type == "result":
                outcome = event.data
    if outcome is None:
        raise protocol_error("the program ended without a result")
    return ExecutionResult.parse({**outcome, "logs": logs})


class _Attendant:
    """Decides about the calls of a run and answers them. Where it is not alone, a call may have its decision or its answer already."""

    def __init__(
        self,
        core: Core,
        execution: AsyncExecution,
        handlers: Handlers,
        decide: Optional[Decide],
        is_alone: bool,
        timeout: Optional[float],
    ) -> None:
        self._core = core
        self._execution = execution
        self._handlers = handlers
        self._decide = decide
        self._is_alone = is_alone
        self._timeout = timeout
        self._seen_seq = 0  # the run's last event when its open calls were read last
        self._open: Dict[str, str] = {}  # their states

    async def take(self, seq: int, call: ExecutionCall) -> None:
        is_asked = call.policy == "ask"
        if not self._is_mine(call):
            return
        if not self._is_alone:
            is_settled = seq <= self._seen_seq and call.call_id not in self._open
            state = None if is_settled else await self._state(call)
            if state is None:
                return
            is_asked = state == "asked"
        if is_asked and not await self._is_allowed(call):
            return
        if call.answered_by == "caller" and (call.name in self._handlers or self._is_alone):
            await self._answer(call)

    def _is_mine(self, call: ExecutionCall) -> bool:
        if self._is_alone or call.policy == "ask" and self._decide is not None:
            return True
        return call.answered_by == "caller" and call.name in self._handlers

    async def _state(self, call: ExecutionCall) -> Optional[str]:
        """`asked`, `open`, or None for a call that is settled."""
        info = await self._execution.refresh(self._timeout)
        self._seen_seq = info["lastSeq"]
        self._open = {each["callId"]: each["status"] for each in info["openCalls"]}
        return self._open.get(call.call_id)

    async def _is_allowed(self, call: ExecutionCall) -> bool:
        """Decides, or waits until somebody else has; False for a call that needs no answer then."""
        if self._decide is None and not self._is_alone:
            while (state := await self._state(call)) == "asked":
                await self._core.network.sleep(DECISION_WAIT_S)
            return state == "open"
        is_allowed = self._decide is not None and bool(await _settled(self._decide(call)))
        try:
            await self._execution.decide(call.call_id, is_allowed, self._timeout)
        except AtollError as error:
            if error.code != "call_answered":
                raise
            # Somebody else decided, or this decision had come, and its answer was lost.
            return is_allowed and await self._state(call) == "open"
        return is_allowed

    async def _answer(self, call: ExecutionCall) -> None:
        try:
            if call.name not in self._handlers:
                raise LookupError(f"nobody answers {call.name}")
            value = await _settled(self._handlers[call.name](*call.args))
            to_json(value)
        except Exception as failure:
            return await self._fail(call, str(failure) or type(failure).__name__)
        try:
            await self._execution.answer(call.call_id, value, self._timeout)
        except AtollError as error:
            # Too long, or too deep: the program hears of it.
            if error.status not in (400, 413, 422):
                raise
            await self._fail(call, error.detail or error.code)

    async def _fail(self, call: ExecutionCall, message: str) -> None:
        await self._execution.fail(call.call_id, message[:MAX_MESSAGE_CHARACTERS], self._timeout)
