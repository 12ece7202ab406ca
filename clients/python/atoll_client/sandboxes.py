"""A sandbox, asynchronous: commands, tools, and the ways to its files and processes."""

from __future__ import annotations

import base64
from typing import Any, AsyncGenerator, Dict, List, Optional, Sequence

from .core import AsyncOwned, Core, Request, Stream, aclosing, frames_of
from .encoding import Record, Shown, camel, given, program_of, segment
from .errors import AtollConnectionError
from .executions import AsyncExecutes
from .files import AsyncFiles
from .models import ExecOutput, ExecResult, NetworkSettings, SandboxInfo, Token, ToolFormat, ToolResult, closed_error, preview_address
from .processes import AsyncProcesses, AsyncTerminal

ROUTE = "/v1/sandboxes"
DEFAULT_EXEC_MS = 30_000
# The time that an answer may take beyond the command itself: a paused sandbox is started first.
EXEC_MARGIN_S = 60.0


def exec_body(
    command: "str | Sequence[str] | None",
    argv: Optional[Sequence[str]],
    cwd: Optional[str],
    env: Optional[Dict[str, str]],
    stdin: "str | bytes | None",
    timeout_ms: Optional[int],
    max_output_bytes: Optional[int],
) -> Dict[str, Any]:
    body = {**program_of(command, argv), **given(cwd=cwd, env=env)}
    body.update(given(timeout_ms=timeout_ms, max_output_bytes=max_output_bytes))
    if isinstance(stdin, bytes):
        body["stdinBase64"] = base64.b64encode(stdin).decode()
    elif stdin is not None:
        body["stdin"] = stdin
    return body


class AsyncTools(Shown):
    """The tools that models call. `await sandbox.tools()` gives the definitions of those that are not switched off in the sandbox."""

    def __init__(self, core: Core, sandbox_id: Optional[str]) -> None:
        self._core = core
        self._sandbox_id = sandbox_id

    async def __call__(self, format: ToolFormat = "json-schema", timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        """The list that a model's API takes as its `tools`: `format` is `json-schema`, `openai`, `anthropic` or `gemini`."""
        query = {"format": format, **given(sandbox_id=self._sandbox_id)}
        return (await self._core.call("GET", "/v1/tools", query, timeout=timeout))["tools"]

    async def call(
        self, name: str, args: Dict[str, Any], context: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None
    ) -> ToolResult:
        """Runs a tool. A tool that fails is a result with `success` false, and no exception."""
        return await self._core.call("POST", f"/v1/tools/{segment(name)}", json=self._body(args, context), timeout=self._core.long(timeout))

    def stream(
        self, name: str, args: Dict[str, Any], context: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None
    ) -> Stream[Dict[str, Any]]:
        """The same with its progress: frames of `type` `tool_progress`, then one `tool_result` with the `result`."""
        request = Request("POST", f"/v1/tools/{segment(name)}", json=self._body(args, context), timeout=timeout)
        return Stream(self._core, self._stream(request))

    def _body(self, args: Dict[str, Any], context: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        return {**given(sandbox_id=self._sandbox_id, context=context), "args": args}

    async def _stream(self, request: Request) -> AsyncGenerator[Dict[str, Any], None]:
        response = await self._core.open_events(request)
        async with aclosing(frames_of(response)) as frames:
            async for frame in frames:
                if frame["type"] in ("error", "stream_closed"):
                    raise closed_error(frame)
                yield frame
                if frame["type"] == "tool_result":
                    return
        raise AtollConnectionError("connection_lost", "the stream ended before the result")


class AsyncSandbox(AsyncExecutes, AsyncOwned):
    """A sandbox. `async with` deletes it at the end; that of a conversation is deleted with its conversation alone."""

    def __init__(self, core: Core, sandbox_id: str) -> None:
        self.id = sandbox_id
        self._route = f"{ROUTE}/{segment(sandbox_id)}"
        super().__init__(core, f"{self._route}/execute")
        self.files = AsyncFiles(core, sandbox_id)
        self.processes = AsyncProcesses(core, sandbox_id)
        self.tools = AsyncTools(core, sandbox_id)

    def __repr__(self) -> str:
        return f"<sandbox {self.id}>"

    async def exec(
        self,
        command: "str | Sequence[str] | None" = None,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        stdin: "str | bytes | None" = None,
        timeout_ms: Optional[int] = None,
        max_output_bytes: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> ExecResult:
        """Runs a text by bash, a list as a program with its arguments (`argv` is the same), to its end. Never run twice: a connection that breaks is an error.

        Nothing comes before the end, so a proxy that ends silent connections (nginx after 60 s) ends the program: take
        exec_stream() for longer ones.
        """
        body = exec_body(command, argv, cwd, env, stdin, timeout_ms, max_output_bytes)
        seconds = (timeout_ms or DEFAULT_EXEC_MS) / 1000 + EXEC_MARGIN_S if timeout is None else timeout
        return ExecResult.parse(await self._core.call("POST", f"{self._route}/exec", json=body, timeout=seconds))

    def exec_stream(
        self,
        command: "str | Sequence[str] | None" = None,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        stdin: "str | bytes | None" = None,
        timeout_ms: Optional[int] = None,
        max_output_bytes: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> Stream[ExecOutput]:
        """The same with the output as it comes; the last piece is of type `exit`. `max_output_bytes` bounds it, too (1 MiB by default)."""
        body = exec_body(command, argv, cwd, env, stdin, timeout_ms, max_output_bytes)
        return Stream(self._core, self._exec_stream(body, timeout))

    async def _exec_stream(self, body: Dict[str, Any], timeout: Optional[float]) -> AsyncGenerator[ExecOutput, None]:
        response = await self._core.open_events(Request("POST", f"{self._route}/exec", json=body, timeout=timeout))
        async with aclosing(frames_of(response)) as frames:
            async for frame in frames:
                if frame["type"] == "stream_closed":
                    raise closed_error(frame)
                if frame["type"] in ("stdout", "stderr", "exit"):
                    yield ExecOutput.parse(frame)
                if frame["type"] == "exit":
                    return
        raise AtollConnectionError("connection_lost", "the stream ended before the command did")

    async def terminal(
        self,
        cols: int = 80,
        rows: int = 24,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        tag: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> AsyncTerminal:
        """A shell, or the program `argv`, on a pseudo-terminal."""
        program = ["bash", "-i"] if argv is None else argv
        process = await self.processes.start(argv=program, cwd=cwd, env=env, pty={"cols": cols, "rows": rows}, tag=tag, timeout=timeout)
        return await AsyncTerminal.start(self._core, self.processes, process, timeout)

    async def info(self, timeout: Optional[float] = None) -> SandboxInfo:
        return await self._core.call("GET", self._route, timeout=timeout)

    async def preview_url(self, port: Optional[int] = None, timeout: Optional[float] = None) -> Optional[str]:
        """The address at which a browser sees a port, as `preview_url` of a conversation."""
        return preview_address(await self.info(timeout=timeout), port)

    async def update(self, *, timeout: Optional[float] = None, **changes: Any) -> SandboxInfo:
        """Changes `limits`, `network`, `preview`, `tools` or `ttl_seconds` of a sandbox without a conversation; the sandbox as it is then."""
        return await self._core.call("PATCH", self._route, json={camel(name): value for name, value in changes.items()}, timeout=timeout)

    async def metrics(self, timeout: Optional[float] = None) -> Record:
        return await self._core.call("GET", f"{self._route}/metrics", timeout=timeout)

    async def logs(self, after: int = 0, stream: Optional[str] = None, timeout: Optional[float] = None) -> Record:
        """The end of what the sandbox wrote (`stream` is `output`), and the server's notes of its life (`system`): `entries`
        after the number `after`, and `next`, the `after` of the next call.
        """
        return await self._core.call("GET", f"{self._route}/logs", {"after": after, "stream": stream}, timeout=timeout)

    async def create_token(self, scope: str, ttl_seconds: Optional[int] = None, timeout: Optional[float] = None) -> Token:
        """A token for a browser or another client; `scope` is `files`, `terminal` or `preview`."""
        answer = await self._core.call("POST", f"{self._route}/tokens", json=given(scope=scope, ttl_seconds=ttl_seconds), timeout=timeout)
        return Token(answer["token"], answer["expiresAt"], answer.get("url"))

    async def delete(self, timeout: Optional[float] = None) -> None:
        """For a sandbox without a conversation."""
        await self._core.call("DELETE", self._route, timeout=timeout)


class AsyncSandboxes(Shown):
    """Sandboxes without a conversation."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(
        self,
        user_id: Optional[str] = None,
        metadata: Optional[Dict[str, Any]] = None,
        env: Optional[Dict[str, str]] = None,
        limits: Optional[Dict[str, int]] = None,
        network: Optional[NetworkSettings] = None,
        ttl_seconds: Optional[int] = None,
        preview: Optional[Dict[str, Any]] = None,
        tools: Optional[Dict[str, bool]] = None,
        timeout: Optional[float] = None,
    ) -> AsyncSandbox:
        body = given(
            user_id=user_id, metadata=metadata, env=env, limits=limits, network=network, ttl_seconds=ttl_seconds, preview=preview, tools=tools
        )
        return AsyncSandbox(self._core, (await self._core.call("POST", ROUTE, json=body, timeout=timeout))["id"])

    async def get(self, sandbox_id: str, timeout: Optional[float] = None) -> AsyncSandbox:
        """A sandbox that the server knows, also a conversation's; `await info()` of it tells more."""
        sandbox = AsyncSandbox(self._core, sandbox_id)
        await sandbox.info(timeout=timeout)
        return sandbox

    def list(self, user_id: Optional[str] = None, limit: Optional[int] = None, timeout: Optional[float] = None) -> Stream[SandboxInfo]:
        return Stream(self._core, self._core.pages(ROUTE, given(user_id=user_id, limit=limit), "sandboxes", timeout=timeout))  # type: ignore[arg-type]
