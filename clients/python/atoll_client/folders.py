"""Folders of this machine as tar archives. What comes out of a sandbox is not trusted."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import BinaryIO, List, Optional, Tuple

from .errors import AtollError


def _kept(member: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isreg() or member.isdir() or member.issym() or member.islnk() else None


def pack(folder: str, to: BinaryIO) -> None:
    """Packs the content of a folder: files, folders and links; owners and all other kinds are left out."""
    with tarfile.open(fileobj=to, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(os.listdir(folder)):
            archive.add(os.path.join(folder, name), arcname=name, filter=_kept)
    to.seek(0)


def extract(archive: BinaryIO, folder: str) -> int:
    """Writes files, folders and links below `folder`, which is made; how many files. Files that are there are replaced. Nothing is written
    outside of it, links that lead out are left out, and of the permissions only that to execute is taken. Raises AtollError
    `invalid_archive` for a name that leads out.
    """
    root = os.path.realpath(folder)
    os.makedirs(root, exist_ok=True)
    links: List[Tuple[str, str]] = []
    files = 0
    with tarfile.open(fileobj=archive, mode="r|") as entries:
        for entry in entries:
            target = _inside(root, entry.name)
            if entry.isdir():
                os.makedirs(target, exist_ok=True)
            elif entry.issym():
                links.append((target, entry.linkname))
            elif entry.isreg():
                source = entries.extractfile(entry)
                assert source is not None
                _make_room(target)
                with open(target, "xb") as to:
                    shutil.copyfileobj(source, to)
                if entry.mode & 0o100:
                    os.chmod(target, os.stat(target).st_mode | 0o111)
                files += 1
    # Links come last, so that nothing is written through one of them.
    for target, destination in links:
        _make_room(target)
        os.symlink(destination, target)
    for target, _ in links:
        if not _is_below(root, os.path.realpath(target)):
            os.unlink(target)
    return files


def _inside(root: str, name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    target = os.path.join(root, *parts)
    if name.startswith("/") or ".." in parts or not _is_below(root, os.path.realpath(os.path.dirname(target) if parts else root)):
        raise AtollError(0, "invalid_archive", f"{name!r} of the archive leads out of the folder")
    return target


def _is_below(root: str, path: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _make_room(target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target):
        os.unlink(target)
