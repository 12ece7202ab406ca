"""A sandbox, synchronous: each call is that of sandboxes.py, files.py or processes.py, where it is described."""

from __future__ import annotations

from typing import Any, BinaryIO, Dict, List, Optional, Sequence, TypeVar, Union

from .blocking import Stopped, Stopper, run
from .bodies import BodySource
from .core import AsyncOwned
from .encoding import FilePath, Record, Shown
from .errors import AtollError, closed_client
from .files import AsyncFiles, LocalPath, OnProgress
from .models import ExecOutput, ExecResult, FileEntry, NetworkSettings, ProcessFrame, ProcessInfo, ProcessOutput, SandboxInfo, Token
from .models import ToolFormat, ToolResult
from .processes import AsyncAttachment, AsyncProcesses, AsyncTerminal
from .sandboxes import AsyncSandbox, AsyncSandboxes, AsyncTools
from .sync_executions import Executes
from .sync_stream import SyncStream

O = TypeVar("O")


class Files(Shown):
    """Paths are relative to the workspace, or begin with /workspace/. A `FileEntry` is a path, too."""

    def __init__(self, inner: AsyncFiles) -> None:
        self._inner = inner

    def read(self, path: FilePath, start: Optional[int] = None, end: Optional[int] = None, timeout: Optional[float] = None) -> bytes:
        return run(self._inner.read(path, start, end, timeout=timeout))

    def read_text(self, path: FilePath, encoding: str = "utf-8", errors: str = "strict", timeout: Optional[float] = None) -> str:
        return run(self._inner.read_text(path, encoding, errors, timeout=timeout))

    def stream(
        self, path: FilePath, start: Optional[int] = None, end: Optional[int] = None, timeout: Optional[float] = None
    ) -> SyncStream[bytes]:
        return SyncStream(self._inner.stream(path, start, end, timeout=timeout))

    def download(self, path: FilePath, to: Union[BinaryIO, LocalPath], timeout: Optional[float] = None) -> int:
        return run(self._inner.download(path, to, timeout=timeout))

    def write(
        self,
        path: FilePath,
        data: BodySource,
        mode: Optional[int] = None,
        inplace: bool = False,
        if_match: Optional[str] = None,
        if_none_match: Optional[str] = None,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> FileEntry:
        return run(self._inner.write(path, data, mode, inplace, if_match, if_none_match, timeout=timeout, on_progress=on_progress))

    def stat(self, path: FilePath, timeout: Optional[float] = None) -> FileEntry:
        return run(self._inner.stat(path, timeout=timeout))

    def list(
        self,
        path: FilePath = "",
        depth: Optional[int] = None,
        limit: Optional[int] = None,
        timeout: Optional[float] = None,
        all: bool = False,
    ) -> SyncStream[FileEntry]:
        return SyncStream(self._inner.list(path, depth, limit, timeout=timeout, all=all))

    def mkdir(self, path: FilePath, timeout: Optional[float] = None) -> FileEntry:
        return run(self._inner.mkdir(path, timeout=timeout))

    def move(
        self,
        path: FilePath,
        to: FilePath,
        overwrite: bool = False,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> FileEntry:
        return run(self._inner.move(path, to, overwrite, timeout=timeout, on_progress=on_progress))

    def copy(
        self,
        path: FilePath,
        to: FilePath,
        overwrite: bool = False,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> FileEntry:
        return run(self._inner.copy(path, to, overwrite, timeout=timeout, on_progress=on_progress))

    def remove(
        self, path: FilePath, recursive: bool = False, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> None:
        run(self._inner.remove(path, recursive, timeout=timeout, on_progress=on_progress))

    def archive(
        self,
        to: Union[BinaryIO, LocalPath],
        path: Optional[FilePath] = None,
        timeout: Optional[float] = None,
        all: bool = False,
        format: Optional[str] = None,
    ) -> int:
        return run(self._inner.archive(to, path, timeout=timeout, all=all, format=format))

    def unpack(
        self,
        archive: Union[BodySource, LocalPath],
        path: Optional[FilePath] = None,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
        format: Optional[str] = None,
    ) -> Dict[str, int]:
        return run(self._inner.unpack(archive, path, timeout=timeout, on_progress=on_progress, format=format))

    def upload_dir(self, local: LocalPath, path: Optional[FilePath] = None, timeout: Optional[float] = None) -> Dict[str, int]:
        return run(self._inner.upload_dir(local, path, timeout=timeout))

    def download_dir(
        self, path: Optional[FilePath], local: LocalPath, timeout: Optional[float] = None, all: bool = False
    ) -> int:
        return run(self._inner.download_dir(path, local, timeout=timeout, all=all))

    def watch(
        self, path: Optional[FilePath] = None, recursive: bool = True, timeout: Optional[float] = None, all: bool = False
    ) -> SyncStream[Dict[str, Any]]:
        return SyncStream(self._inner.watch(path, recursive, timeout=timeout, all=all), is_endless=True)


class Attachment(Shown):
    """A process as its output comes, and its input. One thread may iterate while another one writes. Where the client is closed before
    its exit, the iteration is AtollError `closed`.
    """

    def __init__(self, inner: AsyncAttachment) -> None:
        self._inner = inner
        self._stopper = Stopper()
        self._is_over = False  # closed by its user
        self._is_cut = False  # closed with the client
        try:
            inner.core.ends_with_me(self)
        except AtollError:
            self.close()
            raise

    @property
    def after(self) -> int:
        return self._inner.after

    @property
    def exit(self) -> Optional[Record]:
        return self._inner.exit

    def __iter__(self) -> "Attachment":
        return self

    def __next__(self) -> ProcessFrame:
        try:
            with self._stopper.guarding():
                self._stopper.check()
                return run(self._inner.__anext__())
        except StopAsyncIteration:
            self._check_whole()
            raise StopIteration from None
        except Stopped:
            # The connection may be one that was opened meanwhile.
            run(self._inner.aclose())
            self._check_whole()
            raise StopIteration from None

    def _check_whole(self) -> None:
        """AtollError `closed` where the client's end cut the output short."""
        if self._is_cut and not self._is_over and self._inner.exit is None:
            raise closed_client()

    def write(self, data: "bytes | str") -> None:
        run(self._inner.write(data))

    def end_input(self) -> None:
        run(self._inner.end_input())

    def resize(self, cols: int, rows: int) -> None:
        run(self._inner.resize(cols, rows))

    def signal(self, signal: str) -> None:
        run(self._inner.signal(signal))

    def close(self) -> None:
        """Detaches, and ends an iteration that waits in another thread; the process goes on."""
        self._is_over = True
        self._end()

    def end_with_client(self) -> None:
        self._is_cut = True
        self._end()

    def _end(self) -> None:
        try:
            run(self._inner.aclose())
        finally:
            self._stopper.stop()

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Terminal(Attachment):
    """A shell on a pseudo-terminal. Closing it detaches; `process_id` attaches again."""

    def __init__(self, inner: AsyncTerminal) -> None:
        super().__init__(inner)
        self.process_id = inner.process_id


class Processes(Shown):
    def __init__(self, inner: AsyncProcesses) -> None:
        self._inner = inner

    def start(
        self,
        command: "str | Sequence[str] | None" = None,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        pty: Optional[Dict[str, int]] = None,
        tag: Optional[str] = None,
        restart: Optional[str] = None,
        stdin: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> ProcessInfo:
        return run(self._inner.start(command, argv, cwd, env, pty, tag, restart, stdin, timeout_ms, timeout=timeout))

    def list(self, tag: Optional[str] = None, timeout: Optional[float] = None) -> "List[ProcessInfo]":
        return run(self._inner.list(tag, timeout=timeout))

    def get(self, process_id: str, timeout: Optional[float] = None) -> ProcessInfo:
        return run(self._inner.get(process_id, timeout=timeout))

    def signal(self, process_id: str, signal: str, timeout: Optional[float] = None) -> Any:
        return run(self._inner.signal(process_id, signal, timeout=timeout))

    def stdin(self, process_id: str, data: BodySource, eof: bool = False, timeout: Optional[float] = None) -> Any:
        return run(self._inner.stdin(process_id, data, eof, timeout=timeout))

    def resize(self, process_id: str, cols: int, rows: int, timeout: Optional[float] = None) -> Any:
        return run(self._inner.resize(process_id, cols, rows, timeout=timeout))

    def output(self, process_id: str, after: int = 0, timeout: Optional[float] = None) -> ProcessOutput:
        return run(self._inner.output(process_id, after, timeout=timeout))

    def follow(self, process_id: str, after: int = 0, timeout: Optional[float] = None) -> SyncStream[ProcessFrame]:
        return SyncStream(self._inner.follow(process_id, after, timeout=timeout))

    def attach(self, process_id: str, after: int = 0, timeout: Optional[float] = None) -> Attachment:
        return Attachment(run(self._inner.attach(process_id, after, timeout=timeout)))


class Tools(Shown):
    """The tools that models call. `sandbox.tools()` gives the definitions of those that are not switched off in the sandbox."""

    def __init__(self, inner: AsyncTools) -> None:
        self._inner = inner

    def __call__(self, format: ToolFormat = "json-schema", timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        return run(self._inner(format, timeout=timeout))

    def call(
        self, name: str, args: Dict[str, Any], context: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None
    ) -> ToolResult:
        return run(self._inner.call(name, args, context, timeout=timeout))

    def stream(
        self, name: str, args: Dict[str, Any], context: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None
    ) -> SyncStream[Dict[str, Any]]:
        return SyncStream(self._inner.stream(name, args, context, timeout=timeout))


class Owned(Shown):
    """`with` deletes it at the end. One that is gone by then is no error, and an error of the block is not replaced by one of the deletion."""

    _inner: AsyncOwned

    def __enter__(self: O) -> O:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        run(self._inner.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return repr(self._inner)


class Sandbox(Executes, Owned):
    """A sandbox. `with` deletes it at the end; that of a conversation is deleted with its conversation alone."""

    _inner: AsyncSandbox

    def __init__(self, inner: AsyncSandbox) -> None:
        self._inner = self._executes = inner
        self.id = inner.id
        self.files = Files(inner.files)
        self.processes = Processes(inner.processes)
        self.tools = Tools(inner.tools)

    def exec(
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
        return run(self._inner.exec(command, argv, cwd, env, stdin, timeout_ms, max_output_bytes, timeout=timeout))

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
    ) -> SyncStream[ExecOutput]:
        return SyncStream(self._inner.exec_stream(command, argv, cwd, env, stdin, timeout_ms, max_output_bytes, timeout=timeout))

    def terminal(
        self,
        cols: int = 80,
        rows: int = 24,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        tag: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> Terminal:
        return Terminal(run(self._inner.terminal(cols, rows, argv, cwd, env, tag, timeout=timeout)))

    def info(self, timeout: Optional[float] = None) -> SandboxInfo:
        return run(self._inner.info(timeout=timeout))

    def preview_url(self, port: Optional[int] = None, timeout: Optional[float] = None) -> Optional[str]:
        """The address at which a browser sees a port, as `preview_url` of a conversation."""
        return run(self._inner.preview_url(port, timeout=timeout))

    def update(self, *, timeout: Optional[float] = None, **changes: Any) -> SandboxInfo:
        """Changes `limits`, `preview`, `tools` or `ttl_seconds` of a sandbox without a conversation; the sandbox as it is then."""
        return run(self._inner.update(timeout=timeout, **changes))

    def metrics(self, timeout: Optional[float] = None) -> Record:
        return run(self._inner.metrics(timeout=timeout))

    def logs(self, after: int = 0, stream: Optional[str] = None, timeout: Optional[float] = None) -> Record:
        return run(self._inner.logs(after, stream, timeout=timeout))

    def create_token(self, scope: str, ttl_seconds: Optional[int] = None, timeout: Optional[float] = None) -> Token:
        return run(self._inner.create_token(scope, ttl_seconds, timeout=timeout))

    def delete(self, timeout: Optional[float] = None) -> None:
        run(self._inner.delete(timeout=timeout))


class Sandboxes(Shown):
    """Sandboxes without a conversation."""

    def __init__(self, inner: AsyncSandboxes) -> None:
        self._inner = inner

    def create(
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
    ) -> Sandbox:
        return Sandbox(run(self._inner.create(user_id, metadata, env, limits, network, ttl_seconds, preview, tools, timeout=timeout)))

    def get(self, sandbox_id: str, timeout: Optional[float] = None) -> Sandbox:
        return Sandbox(run(self._inner.get(sandbox_id, timeout=timeout)))

    def list(self, user_id: Optional[str] = None, limit: Optional[int] = None, timeout: Optional[float] = None) -> SyncStream[SandboxInfo]:
        return SyncStream(self._inner.list(user_id, limit, timeout=timeout))
