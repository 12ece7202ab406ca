"""The files of a sandbox, asynchronous. Contents go through in pieces, in both directions."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, AsyncGenerator, AsyncIterator, BinaryIO, Callable, ContextManager, Dict, Optional, Union

from .bodies import Body, BodySource
from .core import Core, Request, Response, Stream, aclosing, frames_of, pieces_of, prepare
from .encoding import FilePath, Shown, encode_path, given, path_data, segment, target_members
from .errors import AtollConnectionError, AtollError
from .folders import extract, pack
from .models import FileEntry, closed_error
from .retry import Follower, Step

BYTES = {"Accept": "*/*"}
NOTHING = "bytes="
# Called with {type, op, entries, bytes}.
OnProgress = Callable[[Dict[str, Any]], None]
LocalPath = Union[str, "os.PathLike[str]"]


class AsyncFiles(Shown):
    """Paths are relative to the workspace, or begin with /workspace/. Text is taken as it is: `50%20off` is a file of that name. A
    `FileEntry` is a path, too, and leads to its file whatever bytes the name has, as its text may not.
    """

    def __init__(self, core: Core, sandbox_id: str) -> None:
        self._core = core
        self._route = f"/v1/sandboxes/{segment(sandbox_id)}"

    def _path(self, path: FilePath) -> str:
        return f"{self._route}/files/{encode_path(path)}"

    async def _open(self, path: FilePath, wanted: Optional[str], timeout: Optional[float]) -> Response:
        headers = dict(BYTES) if wanted is None else {**BYTES, "Range": wanted}
        return await self._core.open(Request("GET", self._path(path), headers=headers, timeout=timeout))

    async def read(self, path: FilePath, start: Optional[int] = None, end: Optional[int] = None, timeout: Optional[float] = None) -> bytes:
        """The bytes from `start` up to, but without, `end`; none where that is not behind `start`. A `start` below 0 means that many
        at the file's end, and takes no `end`.

        For what fits into memory, at most 256 MiB; `download` and `stream` take any size.
        """
        wanted = _range(start, end)
        return b"" if wanted == NOTHING else await (await self._open(path, wanted, timeout)).read_all()

    async def read_text(self, path: FilePath, encoding: str = "utf-8", errors: str = "strict", timeout: Optional[float] = None) -> str:
        return (await self.read(path, timeout=timeout)).decode(encoding, errors)

    def stream(
        self, path: FilePath, start: Optional[int] = None, end: Optional[int] = None, timeout: Optional[float] = None
    ) -> Stream[bytes]:
        """The same in pieces."""
        return Stream(self._core, self._stream(path, _range(start, end), timeout))

    async def _stream(self, path: FilePath, wanted: Optional[str], timeout: Optional[float]) -> AsyncGenerator[bytes, None]:
        if wanted == NOTHING:
            return
        async with aclosing(pieces_of(await self._open(path, wanted, timeout))) as pieces:
            async for piece in pieces:
                yield piece

    async def download(self, path: FilePath, to: Union[BinaryIO, LocalPath], timeout: Optional[float] = None) -> int:
        """Writes a file of the sandbox to a file of this machine, by its path or as a file object; how many bytes."""
        with _opened(to, "wb") as file:
            return await self._save(pieces_of(await self._open(path, None, timeout)), file)

    async def _save(self, pieces: AsyncIterator[bytes], to: BinaryIO) -> int:
        size = 0
        async for piece in pieces:
            await self._core.network.run_blocking(to.write, piece)
            size += len(piece)
        return size

    async def write(
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
        """Replaces a file as a whole, or makes it with its parents. `data`: bytes, text, a file object opened with "rb", or an
        iterable of bytes. `inplace` writes into the file that is there. `if_none_match="*"`: only where there is none.
        """
        headers = {**given_fields(if_match, if_none_match), "Content-Type": "application/octet-stream"}
        query = {"mode": None if mode is None else f"{mode:04o}", "inplace": True if inplace else None}
        # A condition that held for a first try does not hold for a second one.
        once = if_match is not None or if_none_match is not None
        body = Body(data, self._core.network)
        request = {"headers": headers, "body": body, "is_once": once, "timeout": timeout}
        return FileEntry.parse(await self._ask("PUT", self._path(path), query, on_progress, **request))

    async def stat(self, path: FilePath, timeout: Optional[float] = None) -> FileEntry:
        return FileEntry.parse(await self._core.call("GET", self._path(path), {"stat": 1}, timeout=timeout))

    def list(
        self,
        path: FilePath = "",
        depth: Optional[int] = None,
        limit: Optional[int] = None,
        timeout: Optional[float] = None,
        all: bool = False,
    ) -> Stream[FileEntry]:
        """The entries of a directory, over all pages; `depth` goes below, `limit` is of a page. `all`: also caches and histories at the top."""
        query = {"list": 1, "depth": depth, "limit": limit, "all": 1 if all else None}
        return Stream(self._core, self._list(path, query, timeout=timeout))

    async def _list(self, path: FilePath, query: Dict[str, Any], timeout: Optional[float]) -> AsyncGenerator[FileEntry, None]:
        async for entry in self._core.pages(self._path(path), query, "entries", timeout):
            yield FileEntry.parse(entry)

    async def _told(self, request: Request, on_progress: OnProgress) -> Any:
        """The body of the answer of a stream that tells how far a change is."""
        response = await self._core.open_events(request)
        async with aclosing(frames_of(response)) as frames:
            async for frame in frames:
                if frame["type"] in ("error", "stream_closed"):
                    raise closed_error(frame)
                if frame["type"] == "file_result":
                    return frame["result"]
                on_progress(frame)
        raise AtollConnectionError("connection_lost", "the stream ended before the result")

    async def _ask(self, method: str, path: str, query: Optional[Dict[str, Any]], on_progress: Optional[OnProgress], **more: Any) -> Any:
        if on_progress is None:
            return await self._core.call(method, path, query, **more)
        return await self._told(Request(method, path, query or {}, **more), on_progress)

    async def _change(
        self, path: FilePath, op: str, to: FilePath, overwrite: bool, timeout: Optional[float], on_progress: Optional[OnProgress]
    ) -> FileEntry:
        body = {"op": op, **target_members(to), **given(overwrite=True if overwrite else None)}
        return FileEntry.parse(await self._ask("POST", self._path(path), None, on_progress, json=body, timeout=self._core.long(timeout)))

    async def mkdir(self, path: FilePath, timeout: Optional[float] = None) -> FileEntry:
        """With its parents. One that is there stays as it is."""
        return FileEntry.parse(await self._core.call("POST", self._path(path), json={"op": "mkdir"}, timeout=timeout))

    async def move(
        self,
        path: FilePath,
        to: FilePath,
        overwrite: bool = False,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> FileEntry:
        """`on_progress` is called twice a second while it is at work, with {type, op, entries, bytes}; likewise of write, copy, remove, unpack."""
        return await self._change(path, "move", to, overwrite, timeout, on_progress)

    async def copy(
        self,
        path: FilePath,
        to: FilePath,
        overwrite: bool = False,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> FileEntry:
        return await self._change(path, "copy", to, overwrite, timeout, on_progress)

    async def remove(
        self, path: FilePath, recursive: bool = False, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> None:
        seconds = self._core.long(timeout) if recursive else timeout
        await self._ask("DELETE", self._path(path), {"recursive": True if recursive else None}, on_progress, timeout=seconds)

    async def archive(
        self,
        to: Union[BinaryIO, LocalPath],
        path: Optional[FilePath] = None,
        timeout: Optional[float] = None,
        all: bool = False,
        format: Optional[str] = None,
    ) -> int:
        """Writes the workspace, or the directory `path` in it, as a `tar`, `tar.gz` or `zip` to a file of this machine, by its path or as a
        file object; how many bytes. Without `format` the ending of the path tells it, else it is `tar`.
        """
        query = {**_folder(path), "all": 1 if all else None, "format": format or _format_of(to)}
        with _opened(to, "wb") as file:
            response = await self._core.open(Request("GET", f"{self._route}/archive", query, headers=dict(BYTES), timeout=timeout))
            return await self._save(pieces_of(response), file)

    async def unpack(
        self,
        archive: Union[BodySource, LocalPath],
        path: Optional[FilePath] = None,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
        format: Optional[str] = None,
    ) -> Dict[str, int]:
        """Unpacks an archive into the workspace, or into the directory `path` in it; how many `entries` and `bytes`. `archive` is the path of a
        file of this machine, or what it holds: bytes, a file object, pieces. Without `format` its first bytes tell it.
        """
        headers = {"Content-Type": "application/octet-stream"}
        with _opened(archive, "rb") as source:
            body = Body(source, self._core.network)
            request = {"headers": headers, "body": body, "is_once": True, "timeout": self._core.long(timeout)}
            return await self._ask("PUT", f"{self._route}/archive", {**_folder(path), "format": format}, on_progress, **request)

    async def upload_dir(
        self, local: LocalPath, path: Optional[FilePath] = None, timeout: Optional[float] = None
    ) -> Dict[str, int]:
        """Copies the content of a folder of this machine into the workspace, or the directory `path` in it; how many `entries` and `bytes`. Links stay links."""
        with tempfile.TemporaryFile() as archive:
            await self._core.network.run_blocking(pack, os.fspath(local), archive)
            return await self.unpack(archive, path, timeout=timeout)

    async def download_dir(
        self, path: Optional[FilePath], local: LocalPath, timeout: Optional[float] = None, all: bool = False
    ) -> int:
        """Copies the directory `path` of the workspace, or the workspace with None, into a folder of this machine, which is made; how many files.
        The hidden names of list() come along only with `all`. Nothing is written outside of that folder, and links that lead out of it are left out.
        """
        with tempfile.TemporaryFile() as archive:
            await self.archive(archive, path, timeout=timeout, all=all)
            archive.seek(0)
            return await self._core.network.run_blocking(extract, archive, os.fspath(local))

    def watch(
        self, path: Optional[FilePath] = None, recursive: bool = True, timeout: Optional[float] = None, all: bool = False
    ) -> Stream[Dict[str, Any]]:
        """Changes of files, as they happen, in the workspace or below the directory `path`, until the sandbox is gone:
        `{"type": "changes", "changes": [{"change", "path", "href", "to"?, "toHref"?, "directory"}]}`. It starts no sandbox and keeps
        none running. `urllib.parse.unquote_to_bytes(change["href"])` is the path of the file, whatever bytes its name has.
        `started` comes first. After a connection that broke, and after `paused`, comes `rescan`, as where changes were lost:
        look at what you know again.
        """
        query = {**_folder(path), "recursive": None if recursive else False, "all": 1 if all else None}
        return Stream(self._core, self._watch(query, timeout=timeout))

    async def _watch(self, query: Dict[str, Any], timeout: Optional[float] = None) -> AsyncGenerator[Dict[str, Any], None]:
        follower = Follower(0, self._core.credentials.can_renew)
        is_first = True
        while True:
            error: AtollError = AtollConnectionError("connection_lost", "the stream ended without a word")
            try:
                response = await self._core.open_events(Request("GET", f"{self._route}/watch", query, timeout=timeout), 0)
                follower.opened()
                is_again, is_first = not is_first, False
                async with aclosing(frames_of(response)) as frames:
                    async for frame in frames:
                        if frame["type"] == "stream_closed":
                            error = closed_error(frame)
                            continue
                        follower.succeeded()
                        yield {"type": "rescan"} if is_again and frame["type"] == "started" else frame
            except AtollError as failure:
                error = failure
            step = follower.ended(error)
            if step is Step.STOP:
                return
            await prepare(self._core, follower, step, error, f"{self._route}/watch")


def _range(start: Optional[int], end: Optional[int]) -> Optional[str]:
    """The field Range; None for the whole file, NOTHING where no byte is asked for."""
    if start is None and end is None:
        return None
    first = start or 0
    if end is not None and (end < 0 or first < 0):
        raise ValueError("an end is 0 or more, and no end is taken with a start below 0")
    if end is not None and end <= first:
        return NOTHING
    return f"bytes={first}" if first < 0 else f"bytes={first}-{'' if end is None else end - 1}"


def _opened(place: Any, mode: str) -> ContextManager[Any]:
    """The file of a path of this machine; everything else is what it is."""
    return open(place, mode) if isinstance(place, (str, os.PathLike)) else contextlib.nullcontext(place)


def _format_of(place: Any) -> Optional[str]:
    name = os.fspath(place) if isinstance(place, (str, os.PathLike)) else ""
    return "zip" if name.endswith(".zip") else "tar.gz" if name.endswith((".tar.gz", ".tgz")) else None


def _folder(path: Optional[FilePath]) -> Dict[str, Any]:
    return {} if path is None else {"path": path_data(path)}


def given_fields(if_match: Optional[str], if_none_match: Optional[str]) -> Dict[str, str]:
    fields = {"If-Match": if_match, "If-None-Match": if_none_match}
    return {name: value for name, value in fields.items() if value is not None}
