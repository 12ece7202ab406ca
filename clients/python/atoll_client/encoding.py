"""How values become parts of a request: addresses, paths, queries, JSON."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote, quote_from_bytes, urlencode, urlsplit

WORKSPACE = "/workspace"

FilePath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def path_data(path: FilePath) -> bytes:
    """The bytes of a path. Text is taken as it is; lone surrogates are bytes, as `os.fsdecode` makes them."""
    raw = os.fspath(path)
    return raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogateescape")


def encode_path(path: FilePath) -> str:
    """The tail of a route of files. A leading `/workspace/` is the workspace; nothing else is changed."""
    tail = quote_from_bytes(path_data(path), safe="/")
    if tail == WORKSPACE:
        return ""
    return tail[len(WORKSPACE) + 1 :] if tail.startswith(WORKSPACE + "/") else tail


def target_members(path: FilePath) -> "dict[str, str]":
    """Where something goes, as members of a body: `to` is text, and only `toHref` names bytes that are not UTF-8."""
    try:
        return {"to": path_data(path).decode("utf-8")}
    except UnicodeDecodeError:
        return {"toHref": encode_path(path)}


def segment(text: str) -> str:
    """A single part of a path, quoted: an id, a name."""
    return quote(text, safe="")


def target(prefix: str, path: str, query: Mapping[str, Any]) -> str:
    """The target of a request. Members of the query that are None are left out; True is 1, False is 0; bytes are themselves."""
    given = {name: int(value) if isinstance(value, bool) else value for name, value in query.items() if value is not None}
    return prefix + path + ("?" + urlencode(given) if given else "")


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def given(**members: Any) -> "dict[str, Any]":
    """The members that are not None. Names in snake_case become the camelCase of the API."""
    return {camel(name): value for name, value in members.items() if value is not None}


def camel(name: str) -> str:
    """The API's name of a member; one that is the API's already stays."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


class Shown:
    """Its repr is its kind and its place, as `<Files /v1/sandboxes/ID>`: no key, and no text of a user."""

    def _place(self) -> str:
        inner = getattr(self, "_inner", None)
        return inner._place() if isinstance(inner, Shown) else str(getattr(self, "_route", ""))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._place()}".rstrip() + ">"


class Record(Dict[str, Any]):
    """An object of the API: its members by their names there (`info["statusReason"]`), and as attributes in snake_case (`info.status_reason`)."""

    def __getattr__(self, name: str) -> Any:
        for member in (name, camel(name)):
            if member in self and not name.startswith("_"):
                return self[member]
        raise AttributeError(f"there is no {name!r} among {sorted(self)}")


def from_json(text: "str | bytes | bytearray") -> Any:
    """Objects in it are Records. Raises ValueError."""
    return json.loads(text, object_hook=Record)


def program_of(command: "str | Sequence[str] | None", argv: Optional[Sequence[str]]) -> Dict[str, Any]:
    """The members of a body for a program: text is run by bash, a list is a program with its arguments. Raises ValueError unless exactly one is given."""
    if (command is None) == (argv is None):
        raise ValueError("give exactly one of command and argv")
    if isinstance(command, str):
        return {"command": command}
    parts: List[str] = list(argv if command is None else command)
    return {"argv": parts}


def new_idempotency_key() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Address:
    """Where a server listens. `unix_path` is set for a Unix socket; `prefix` precedes every path."""

    host: str
    port: int
    is_tls: bool = False
    unix_path: Optional[str] = None
    prefix: str = ""

    @property
    def host_field(self) -> str:
        if self.unix_path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"unix:{self.unix_path}" if self.unix_path is not None else f"http{'s' * self.is_tls}://{self.host_field}{self.prefix}"


def parse_address(base_url: str) -> Address:
    """Raises ValueError for what is no `http://`, `https://` or `unix:` address."""
    if base_url.startswith("unix:"):
        path = base_url[len("unix:") :]
        if path.startswith("//"):
            path = path[2:]
        if not path:
            raise ValueError("unix: needs the path of a socket")
        return Address("localhost", 0, unix_path=path)
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"not the address of a server: {base_url!r}; it looks like http://127.0.0.1:4100 or unix:/run/atoll.sock")
    if parts.username is not None:
        raise ValueError("an address has no credentials: give api_key or token")
    is_tls = parts.scheme == "https"
    return Address(parts.hostname, parts.port or (443 if is_tls else 80), is_tls, prefix=parts.path.rstrip("/"))
