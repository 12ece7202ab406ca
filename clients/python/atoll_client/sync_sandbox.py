"""A sandbox, synchronous: each call is that of sandboxes.py, files.py or processes.py, where it is described."""

from __future__ import annotations

from typing import Any, BinaryIO, Callable, Dict, Generic, List, Optional, Sequence, TypeVar

from .blocking import run
from .bodies import BodySource
from .core import Stream
from .encoding import FilePath
from .files import AsyncFiles
from .models import ExecOutput, ExecResult, FileEntry, ProcessFrame, Token, ToolResult
from .processes import AsyncAttachment, AsyncProcesses, AsyncTerminal
from .sandboxes import AsyncSandbox, AsyncSandboxes, AsyncTools

T = TypeVar("T")


class SyncStream(Generic[T]):
    """An iterator that holds a connection: leave it by `with`, or close it with `close()`."""

    def __init__(self, source: "Stream[Any]", convert: Callable[[Any], T] = lambda item: item) -> None:
        self._source = source
        self._convert = convert

    def __iter__(self) -> "SyncStream[T]":
        return self

    def __next__(self) -> T:
        try:
            return self._convert(run(self._source.__anext__()))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        run(self._source.aclose())

    def __enter__(self) -> "SyncStream[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Files:
    """Paths are relative to the workspace, or begin with /workspace/. A `FileEntry` is a path, too."""

    def __init__(self, inner: AsyncFiles) -> None:
        self._inner = inner

    def read(self, path: FilePath, start: Optional[int] = None, end: Optional[int] = None) -> bytes:
        return run(self._inner.read(path, start, end))

    def read_text(self, path: FilePath, encoding: str = "utf-8", errors: str = "strict") -> str:
        return run(self._inner.read_text(path, encoding, errors))

    def stream(self, path: FilePath, start: Optional[int] = None, end: Optional[int] = None) -> SyncStream[bytes]:
        return SyncStream(self._inner.stream(path, start, end))

    def download(self, path: FilePath, to: BinaryIO) -> int:
        return run(self._inner.download(path, to))

    def write(
        self,
        path: FilePath,
        data: BodySource,
        mode: Optional[int] = None,
        inplace: bool = False,
        if_match: Optional[str] = None,
        if_none_match: Optional[str] = None,
    ) -> FileEntry:
        return run(self._inner.write(path, data, mode, inplace, if_match, if_none_match))

    def stat(self, path: FilePath) -> FileEntry:
        return run(self._inner.stat(path))

    def list(self, path: FilePath = "", depth: Optional[int] = None, limit: Optional[int] = None) -> SyncStream[FileEntry]:
        return SyncStream(self._inner.list(path, depth, limit))

    def mkdir(self, path: FilePath) -> FileEntry:
        return run(self._inner.mkdir(path))

    def move(self, path: FilePath, to: FilePath, overwrite: bool = False) -> FileEntry:
        return run(self._inner.move(path, to, overwrite))

    def copy(self, path: FilePath, to: FilePath, overwrite: bool = False) -> FileEntry:
        return run(self._inner.copy(path, to, overwrite))

    def remove(self, path: FilePath, recursive: bool = False) -> None:
        run(self._inner.remove(path, recursive))

    def archive(self, to: BinaryIO, path: Optional[FilePath] = None) -> int:
        return run(self._inner.archive(to, path))

    def unpack(self, archive: BodySource, path: Optional[FilePath] = None) -> Dict[str, int]:
        return run(self._inner.unpack(archive, path))

    def watch(self, path: Optional[FilePath] = None, recursive: bool = True) -> SyncStream[Dict[str, Any]]:
        return SyncStream(self._inner.watch(path, recursive))


class Attachment:
    """A process as its output comes, and its input. One thread may iterate while another one writes."""

    def __init__(self, inner: AsyncAttachment) -> None:
        self._inner = inner

    @property
    def offset(self) -> int:
        return self._inner.offset

    @property
    def exit(self) -> Optional[Dict[str, Any]]:
        return self._inner.exit

    def __iter__(self) -> "Attachment":
        return self

    def __next__(self) -> ProcessFrame:
        try:
            return run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def write(self, data: "bytes | str") -> None:
        run(self._inner.write(data))

    def end_input(self) -> None:
        run(self._inner.end_input())

    def resize(self, cols: int, rows: int) -> None:
        run(self._inner.resize(cols, rows))

    def signal(self, signal: str) -> None:
        run(self._inner.signal(signal))

    def close(self) -> None:
        run(self._inner.aclose())

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Terminal(Attachment):
    """A shell on a pseudo-terminal. Closing it detaches; `process_id` attaches again."""

    def __init__(self, inner: AsyncTerminal) -> None:
        super().__init__(inner)
        self.process_id = inner.process_id


class Processes:
    def __init__(self, inner: AsyncProcesses) -> None:
        self._inner = inner

    def start(
        self,
        command: Optional[str] = None,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        pty: Optional[Dict[str, int]] = None,
        tag: Optional[str] = None,
        restart: Optional[str] = None,
        stdin: Optional[str] = None,
        timeout_ms: Optional[int] = None,
    ) -> Dict[str, Any]:
        return run(self._inner.start(command, argv, cwd, env, pty, tag, restart, stdin, timeout_ms))

    def list(self, tag: Optional[str] = None) -> "List[Dict[str, Any]]":
        return run(self._inner.list(tag))

    def get(self, process_id: str) -> Dict[str, Any]:
        return run(self._inner.get(process_id))

    def signal(self, process_id: str, signal: str) -> Any:
        return run(self._inner.signal(process_id, signal))

    def stdin(self, process_id: str, data: BodySource, eof: bool = False) -> Any:
        return run(self._inner.stdin(process_id, data, eof))

    def resize(self, process_id: str, cols: int, rows: int) -> Any:
        return run(self._inner.resize(process_id, cols, rows))

    def attach(self, process_id: str, after: int = 0) -> Attachment:
        return Attachment(run(self._inner.attach(process_id, after)))


class Tools:
    """The filesystem tools that models call. `sandbox.tools()` gives their definitions."""

    def __init__(self, inner: AsyncTools) -> None:
        self._inner = inner

    def __call__(self, format: str = "json-schema") -> List[Dict[str, Any]]:
        return run(self._inner(format))

    def call(self, name: str, args: Dict[str, Any], context: Optional[Dict[str, Any]] = None) -> ToolResult:
        return run(self._inner.call(name, args, context))

    def stream(self, name: str, args: Dict[str, Any], context: Optional[Dict[str, Any]] = None) -> SyncStream[Dict[str, Any]]:
        return SyncStream(self._inner.stream(name, args, context))


class Sandbox:
    def __init__(self, inner: AsyncSandbox) -> None:
        self._inner = inner
        self.id = inner.id
        self.files = Files(inner.files)
        self.processes = Processes(inner.processes)
        self.tools = Tools(inner.tools)

    def exec(
        self,
        command: Optional[str] = None,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        stdin: "str | bytes | None" = None,
        timeout_ms: Optional[int] = None,
        max_output_bytes: Optional[int] = None,
    ) -> ExecResult:
        return run(self._inner.exec(command, argv, cwd, env, stdin, timeout_ms, max_output_bytes))

    def exec_stream(
        self,
        command: Optional[str] = None,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        stdin: "str | bytes | None" = None,
        timeout_ms: Optional[int] = None,
        max_output_bytes: Optional[int] = None,
    ) -> SyncStream[ExecOutput]:
        return SyncStream(self._inner.exec_stream(command, argv, cwd, env, stdin, timeout_ms, max_output_bytes))

    def terminal(
        self,
        cols: int = 80,
        rows: int = 24,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        tag: Optional[str] = None,
    ) -> Terminal:
        return Terminal(run(self._inner.terminal(cols, rows, argv, cwd, env, tag)))

    def info(self) -> Dict[str, Any]:
        return run(self._inner.info())

    def metrics(self) -> Dict[str, Any]:
        return run(self._inner.metrics())

    def logs(self, after: int = 0, stream: Optional[str] = None) -> Dict[str, Any]:
        return run(self._inner.logs(after, stream))

    def create_token(self, scope: str, ttl_seconds: Optional[int] = None) -> Token:
        return run(self._inner.create_token(scope, ttl_seconds))

    def delete(self) -> None:
        run(self._inner.delete())


class Sandboxes:
    """Sandboxes without a conversation."""

    def __init__(self, inner: AsyncSandboxes) -> None:
        self._inner = inner

    def create(
        self,
        user_id: Optional[str] = None,
        metadata: Optional[Dict[str, Any]] = None,
        env: Optional[Dict[str, str]] = None,
        limits: Optional[Dict[str, int]] = None,
        network: Any = None,
        ttl_seconds: Optional[int] = None,
        preview: Optional[Dict[str, Any]] = None,
    ) -> Sandbox:
        return Sandbox(run(self._inner.create(user_id, metadata, env, limits, network, ttl_seconds, preview)))

    def get(self, sandbox_id: str) -> Sandbox:
        return Sandbox(run(self._inner.get(sandbox_id)))

    def list(self, user_id: Optional[str] = None, limit: Optional[int] = None) -> SyncStream[Dict[str, Any]]:
        return SyncStream(self._inner.list(user_id, limit))
