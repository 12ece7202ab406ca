"""The second layer of the Python engine: honest programs get a named error; a hostile program gets around it.

CPython has no restriction within the language: introspection reaches the real builtins, the frames of the runner and the
nonce of the run. The sandbox around the process is the only boundary. This layer makes accidents look the same on all
engines: kind `denied`, and the name of what was tried.
"""

import builtins
import os
import sys
import types


class Denied(PermissionError):
    """The engine refuses an operation; the run is reported as `denied` if the program does not catch it."""


_REFUSED_PREFIXES = (
    "ctypes.",
    "ftplib.",
    "http.client.",
    "imaplib.",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.",
    "smtplib.",
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostby",
    "socket.sendmsg",
    "socket.sendto",
    "subprocess.",
    "urllib.",
)
_CHANGES_FILES = frozenset(
    ("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate")
)
_LOOKS_AT_FILES = frozenset(("os.listdir", "os.scandir"))
_LIBRARY = tuple(sorted({os.path.dirname(os.__file__), sys.base_prefix + "/lib/python3", sys.base_prefix + "/share/zoneinfo"}))


def _in_library(path):
    if not isinstance(path, (str, bytes)):
        return False
    # Importing asks for folders of the library; realpath() would follow links that only the library makes.
    name = os.path.normpath(os.fsdecode(path))
    return name.startswith(_LIBRARY)


def _may_open(path, mode, flags):
    if isinstance(path, int):
        return True
    writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
        return False
    return _in_library(path) or os.fsdecode(path) in ("/dev/urandom", "/etc/localtime")


def _audit(event, arguments):
    if event == "open":
        if not _may_open(*arguments[:3]):
            raise Denied(f"opening {os.fsdecode(arguments[0])!r} is denied: a program has no files")
    elif event in _LOOKS_AT_FILES:
        path = arguments[0] if arguments else None
        if not _in_library(path):
            raise Denied(f"{event} is denied: a program has no files")
    elif event in _CHANGES_FILES or event.startswith(_REFUSED_PREFIXES):
        raise Denied(f"{event} is denied: a program has no network, files or processes, only codemode")


def _refused(name):
    def refuse(*_args, **_kwargs):
        raise Denied(f"{name}() is denied")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


class Guard:
    """Stands for `codemode` where a program assigns to it."""

    __slots__ = ()

    def __setattr__(self, name, _value):
        raise TypeError(f"{name} cannot be reassigned")

    def __delattr__(self, name):
        raise TypeError(f"{name} cannot be deleted")


class _Sealed(types.ModuleType):
    def __setattr__(self, name, _value):
        raise TypeError(f"builtins is sealed: {name} cannot be set")

    def __delattr__(self, name):
        raise TypeError(f"builtins is sealed: {name} cannot be deleted")


def program_builtins(extra):
    """A copy of the builtins for the program alone: without eval, exec, compile, input and breakpoint."""
    names = dict(vars(builtins))
    for name in ("eval", "exec", "compile", "input", "breakpoint"):
        names[name] = _refused(name)
    for name in ("exit", "quit", "copyright", "credits", "license", "help"):
        names.pop(name, None)
    names.update(extra)
    return names


def harden(names):
    """Empties the environment, seals the module `builtins` for later imports, and starts to refuse. Not undone."""
    os.environ.clear()
    sealed = _Sealed("builtins")
    vars(sealed).update({name: value for name, value in names.items() if not name.startswith("__atoll")})
    sys.modules["builtins"] = sealed
    sys.argv[:] = ["program"]
    sys.addaudithook(_audit)
