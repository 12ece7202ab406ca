"""Code mode, synchronous: each call is that of executions.py, where it is described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

from .blocking import run
from .encoding import Shown
from .executions import (
    AsyncExecutes,
    AsyncExecution,
    AsyncExecutions,
    Decide,
    ExecuteOptions,
    ExecutionInfo,
    ExecutionResult,
    Executor,
    Handlers,
    ProgramTool,
    ToolDeclarations,
)
from .models import Event, Token
from .sync_stream import SyncEventStream, SyncStream

if TYPE_CHECKING:
    from typing_extensions import Unpack
else:
    from .executions import Unpack


class Executes(Shown):
    """Running programs: of the client, and of a sandbox, whose tools the program may then call."""

    _executes: AsyncExecutes

    def execute(
        self,
        code: str,
        handlers: Optional[Handlers] = None,
        decide: Optional[Decide] = None,
        timeout: Optional[float] = None,
        **options: "Unpack[ExecuteOptions]",
    ) -> ExecutionResult:
        """Runs a program to its end. What the program does wrong is in the result, and no exception.

        `handlers` answer the calls of `codemode.NAME(…)` with the arguments of the call, one after another; an exception is one
        in the program. `decide(call)` says whether a call of a tool with policy `ask` may go on; without it none may. The run ends
        with its connection, and is not begun again.
        """
        return run(self._executes.execute(code, handlers, decide, timeout, **options))

    def execute_stream(self, code: str, timeout: Optional[float] = None, **options: "Unpack[ExecuteOptions]") -> SyncStream[Event]:
        """The same as it happens: `start`, `log`, `tool_call`, `result`, `done`. Calls are answered with the `answer`, `fail` and
        `decide` of `execution(id)`. The run ends when the stream is left.
        """
        return SyncStream(self._executes.execute_stream(code, timeout, **options))

    def execute_detached(self, code: str, timeout: Optional[float] = None, **options: "Unpack[ExecuteOptions]") -> "Execution":
        """Begins a run that goes on without its client. `execution.result()` waits for its end."""
        return Execution(run(self._executes.execute_detached(code, timeout, **options)))


class Execution(Shown):
    """A run of a program. `info` is what the server said last; `refresh()` asks again, until 10 minutes after its end."""

    def __init__(self, inner: AsyncExecution) -> None:
        self._inner = inner
        self.id = inner.id

    @property
    def info(self) -> ExecutionInfo:
        return self._inner.info

    def refresh(self, timeout: Optional[float] = None) -> ExecutionInfo:
        return run(self._inner.refresh(timeout))

    def follow(
        self, after: Union[int, str] = 0, max_failures: Optional[int] = None, timeout: Optional[float] = None
    ) -> SyncEventStream:
        """Its events after the number `after`, each once, to `done`, over connections that break."""
        return SyncEventStream(self._inner.follow(after, max_failures, timeout))

    def result(
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
        return run(self._inner.result(handlers, decide, max_failures, timeout))

    def answer(self, call_id: str, result: Any, timeout: Optional[float] = None) -> None:
        """Gives the program the result of a call. AtollError `call_answered` where it has its answer."""
        run(self._inner.answer(call_id, result, timeout))

    def fail(self, call_id: str, message: str, timeout: Optional[float] = None) -> None:
        """The call is an exception in the program."""
        run(self._inner.fail(call_id, message, timeout))

    def decide(self, call_id: str, is_allowed: bool, timeout: Optional[float] = None) -> None:
        """Allows or denies a call with policy `ask`. An allowed call then still waits for its answer."""
        run(self._inner.decide(call_id, is_allowed, timeout))

    def cancel(self, timeout: Optional[float] = None) -> ExecutionInfo:
        return run(self._inner.cancel(timeout))

    def create_token(self, scope: str = "read", ttl_seconds: Optional[int] = None, timeout: Optional[float] = None) -> Token:
        """A token for a browser: `read` opens the events, `chat` the WebSocket, too."""
        return run(self._inner.create_token(scope, ttl_seconds, timeout))


class Executions(Shown):
    def __init__(self, inner: AsyncExecutions) -> None:
        self._inner = inner

    def get(self, execution_id: str, timeout: Optional[float] = None) -> Execution:
        return Execution(run(self._inner.get(execution_id, timeout)))

    def list(
        self, user_id: Optional[str] = None, limit: Optional[int] = None, timeout: Optional[float] = None
    ) -> SyncStream[Execution]:
        """The executions that run, wait or ended within the last 10 minutes, the latest first; `limit` is of a page."""
        return SyncStream(self._inner.list(user_id, limit, timeout), Execution)

    def executors(self, timeout: Optional[float] = None) -> "List[Executor]":
        """The engines, whether each can run programs here, and what it isolates."""
        return run(self._inner.executors(timeout))

    def prompt(self, tools: Sequence[ProgramTool], timeout: Optional[float] = None) -> ToolDeclarations:
        """Tools as TypeScript declarations, for the prompt of a model."""
        return run(self._inner.prompt(tools, timeout))
