"""Code mode, asynchronous: programs that a model wrote, their executions, and the calls of tools that they make (docs/code-mode.md)."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, AsyncGenerator, Callable, Dict, List, Mapping, Optional, Sequence, TypedDict, Union

from .core import SILENCE_S, Core, Request, Stream, aclosing, frames_of
from .encoding import given, segment, to_json
from .errors import AtollConnectionError, AtollError, protocol_error
from .following import EventStream, Part, follow_events
from .models import Event, Token, closed_error
from .retry import Follower

if TYPE_CHECKING:
    from typing_extensions import Unpack

ROUTE = "/v1/executions"
# Of the text of an exception, for a program; the server takes 16 KiB.
MAX_MESSAGE_CHARACTERS = 4000
# What somebody else was faster with, or what came too late.
_SETTLED = ("call_answered", "execution_ended")


class ProgramTool(TypedDict, total=False):
    """A tool that a program may call as `codemode.NAME(…)`."""

    name: str
    description: str
    inputSchema: Dict[str, Any]
    policy: str  # `allow`, `ask` or `deny`


class ExecuteOptions(TypedDict, total=False):
    """What can be asked for with a program; docs/code-mode.md has the defaults."""

    language: str
    executor: str
    timeout_ms: int
    memory_mb: int
    cpu_percent: int
    max_output_bytes: int
    max_calls: int
    user_id: str
    tools: Sequence[ProgramTool]
    sandbox_tools: Union[str, Sequence[str]]  # for execute of a sandbox: `none`, or names


class Executor(TypedDict, total=False):
    """An engine that runs programs."""

    name: str
    available: bool
    reason: str
    version: Optional[str]
    languages: List[str]
    isolates: str
    weaknesses: List[str]


class ExecutionInfo(TypedDict, total=False):
    """An execution as the server describes it. `outcome` is None while it has not ended."""

    executionId: str
    userId: Optional[str]
    status: str
    executor: str
    language: str
    detached: bool
    createdAt: str
    endedAt: Optional[str]
    lastSeq: int
    openCalls: List[Dict[str, str]]
    outcome: Optional[Dict[str, Any]]


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
        """Of the data of an event `tool_call`."""
        return cls(data["callId"], data["name"], data["args"], data["policy"], data["answeredBy"])


@dataclass(frozen=True)
class ExecutionResult:
    """What became of a program. `error` has `kind` and `message`, and `line` where that is known; then there is no `result`."""

    result: Any
    error: Optional[Dict[str, Any]]
    logs: List[Dict[str, str]]
    calls: List[Dict[str, Any]]
    duration_ms: int
    executor: str
    execution_id: Optional[str]
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
            answer,
        )

    @property
    def ok(self) -> bool:
        return self.error is None


Handlers = Mapping[str, Callable[..., Any]]
Decide = Callable[[ExecutionCall], Any]


def _execute_body(code: str, options: Mapping[str, Any], **more: Any) -> Dict[str, Any]:
    return {"code": code, **given(**options, **more)}


def _with_handlers(options: "ExecuteOptions", handlers: Handlers) -> "ExecuteOptions":
    """A handler without a tool of its name is a tool that takes anything."""
    tools = list(options.get("tools") or [])
    named = {tool["name"] for tool in tools}
    return {**options, "tools": [*tools, *({"name": name} for name in handlers if name not in named)]}  # type: ignore[typeddict-item]


class AsyncExecutes:
    """Running programs: of the client, and of a sandbox, whose filesystem tools the program may then call."""

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


class AsyncExecution:
    """A run of a program. `info` is what the server said last; `await refresh()` asks again, until 10 minutes after its end."""

    def __init__(self, core: Core, execution_id: str, info: Optional[ExecutionInfo] = None) -> None:
        self._core = core
        self.id = execution_id
        self.info: ExecutionInfo = info or {}
        self._route = f"{ROUTE}/{segment(execution_id)}"

    async def refresh(self, timeout: Optional[float] = None) -> ExecutionInfo:
        self.info = await self._core.call("GET", self._route, timeout=timeout)
        return self.info

    def follow(self, after: Union[int, str] = 0, max_failures: Optional[int] = None, timeout: Optional[float] = None) -> EventStream:
        """Its events after the number `after`, each once, to `done`, over connections that break."""
        follower = Follower(after, self._core.credentials.can_renew, max_failures)

        def request() -> Request:
            return Request("GET", f"{self._route}/events", {"after": follower.cursor}, timeout=timeout)

        return EventStream(self._core, follow_events(self._core, follower, request, Part()), follower)

    async def result(
        self, handlers: Optional[Handlers] = None, decide: Optional[Decide] = None, max_failures: Optional[int] = None
    ) -> ExecutionResult:
        """Waits for its end. `handlers` and `decide` are those of `execute`; other calls are left to whoever else answers them."""
        return await _outcome(self._core, self.follow(max_failures=max_failures), self, handlers or {}, decide, is_alone=False)

    async def _say(self, call_id: str, answer: Dict[str, Any], timeout: Optional[float]) -> None:
        # The first answer counts.
        await self._core.call("POST", f"{self._route}/calls/{segment(call_id)}", json=answer, is_safe=True, timeout=timeout)

    async def answer(self, call_id: str, result: Any, timeout: Optional[float] = None) -> None:
        """What the call gives to the program. AtollError `call_answered` where it has its answer."""
        await self._say(call_id, {"result": result}, timeout)

    async def fail(self, call_id: str, message: str, timeout: Optional[float] = None) -> None:
        """The call is an exception in the program."""
        await self._say(call_id, {"error": {"message": message}}, timeout)

    async def decide(self, call_id: str, is_allowed: bool, timeout: Optional[float] = None) -> None:
        """Whether a call with policy `ask` may go on. It then still waits for its answer."""
        await self._say(call_id, {"decision": "allow" if is_allowed else "deny"}, timeout)

    async def cancel(self, timeout: Optional[float] = None) -> ExecutionInfo:
        self.info = await self._core.call("DELETE", self._route, is_safe=True, timeout=timeout)
        return self.info

    async def create_token(self, scope: str = "read", ttl_seconds: Optional[int] = None, timeout: Optional[float] = None) -> Token:
        """A token for a browser: `read` opens the events, `chat` the WebSocket, too."""
        body = given(scope=scope, ttl_seconds=ttl_seconds)
        answer = await self._core.call("POST", f"{self._route}/tokens", json=body, timeout=timeout)
        return Token(answer["token"], answer["expiresAt"])


class AsyncExecutions:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, execution_id: str, timeout: Optional[float] = None) -> AsyncExecution:
        execution = AsyncExecution(self._core, execution_id)
        await execution.refresh(timeout)
        return execution

    def list(self, user_id: Optional[str] = None, limit: Optional[int] = None, timeout: Optional[float] = None) -> Stream[AsyncExecution]:
        """Those that run, wait or ended within the last 10 minutes, the latest first; `limit` is of a page."""
        return Stream(self._core, self._list(given(user_id=user_id, limit=limit), timeout))

    async def _list(self, query: Dict[str, Any], timeout: Optional[float]) -> AsyncGenerator[AsyncExecution, None]:
        async for info in self._core.pages(ROUTE, query, "executions", timeout):
            yield AsyncExecution(self._core, info["executionId"], info)  # type: ignore[arg-type]

    async def executors(self, timeout: Optional[float] = None) -> List[Executor]:
        """The engines, whether each can run programs here, and what it isolates."""
        return (await self._core.call("GET", "/v1/executors", timeout=timeout))["executors"]

    async def prompt(self, tools: Sequence[ProgramTool], timeout: Optional[float] = None) -> str:
        """Tools as TypeScript declarations, for the prompt of a model."""
        body = {"tools": list(tools)}
        return (await self._core.call("POST", "/v1/executors/prompt", json=body, is_safe=True, timeout=timeout))["declarations"]


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _outcome(
    core: Core,
    events: Stream[Event],
    execution: Optional[AsyncExecution],
    handlers: Handlers,
    decide: Optional[Decide],
    is_alone: bool,
) -> ExecutionResult:
    """Answers calls until the program has ended. `is_alone`: nobody else answers."""
    logs: List[Dict[str, str]] = []
    outcome: Optional[Dict[str, Any]] = None
    async with events:
        async for event in events:
            if event.type == "start" and execution is None:
                execution = AsyncExecution(core, event.data["executionId"])
            elif event.type == "log":
                logs.append(event.data)
            elif event.type == "tool_call" and execution is not None:
                call = ExecutionCall.parse(event.data)
                try:
                    await _take_call(execution, call, handlers, decide, is_alone)
                except AtollError as error:
                    if error.code not in _SETTLED:
                        raise
            elif event.type == "result":
                outcome = event.data
    if outcome is None:
        raise protocol_error("the program ended without a result")
    return ExecutionResult.parse({**outcome, "logs": logs})


async def _take_call(
    execution: AsyncExecution, call: ExecutionCall, handlers: Handlers, decide: Optional[Decide], is_alone: bool
) -> None:
    if call.policy == "ask" and (decide is not None or is_alone):
        is_allowed = decide is not None and bool(await _settled(decide(call)))
        await execution.decide(call.call_id, is_allowed)
        if not is_allowed:
            return
    handler = handlers.get(call.name)
    if call.answered_by != "caller" or handler is None and not is_alone:
        return
    try:
        if handler is None:
            raise LookupError(f"nobody answers {call.name}")
        value = await _settled(handler(*call.args))
        to_json(value)
    except Exception as failure:
        await execution.fail(call.call_id, (str(failure) or type(failure).__name__)[:MAX_MESSAGE_CHARACTERS])
    else:
        await execution.answer(call.call_id, value)
