"""Speaks the runner protocol (bridge/runner/README.md) as the server would, with one process a run."""

import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

# Until what a run does not end by itself is taken for hanging.
SECONDS = 60
MAX_FRAME = 4 * 1024 * 1024
MAX_DEPTH = 128
LOG_SLACK = 8192  # beyond maxLogBytes, for the entry that says that the logs end
LIMITS = {"maxCalls": 100, "maxValueBytes": 1048576, "maxLogBytes": 1048576}


class Broken(Exception):
    """The runner sent what may not come, or ended without a result."""


def place_runners(folder):
    """Puts this checkout's runners into `folder`/runner; what is there already is left, for other tests may be running."""
    source = Path(__file__).resolve().parents[2] / "bridge/runner/engines"
    target = folder / "runner"
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and not ((target / path.name).exists() and (target / path.name).read_bytes() == path.read_bytes()):
            new = target / f".{path.name}.{os.getpid()}"
            shutil.copy(path, new)
            new.replace(target / path.name)


def checked(body):
    """The message of a frame, which the server would read, too: UTF-8 without half a surrogate pair, not too deep."""
    try:
        message = json.loads(body)
        json.dumps(message, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Broken(f"a frame that cannot be read: {error}") from None
    level, depth = [message], 0
    while level := [one for one in level if isinstance(one, (list, dict))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    if depth > MAX_DEPTH:
        raise Broken(f"a frame of {depth} levels")
    return message


def exact(value):
    """A value as the server passes it on: JavaScript would read another number for an integer beyond 2^53."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    is_large = isinstance(value, int) and abs(value) > 2**53 - 1
    return {"$atoll": "bigint", "value": str(value)} if is_large else value


def answer(tool, args):
    """The body of call_result that a tool of a case gives for these arguments."""
    if "error" in tool:
        return {"error": {"message": tool["error"]}}
    if tool.get("sum"):
        return {"result": sum(args)}
    if tool.get("square"):
        return {"result": args[0] * args[0]}
    if tool.get("echo"):
        return {"result": args}
    if tool.get("first"):
        return {"result": args[0]}
    if "template" in tool:
        return {"result": tool["template"].format(**args[0])}
    return {"result": tool["value"]}


class Run:
    """A program on an engine; `logs`, `calls` and `result` (the last frame) are there once it has ended."""

    def __init__(self, engine, folder, program, seconds=SECONDS):
        self.logs, self.calls, self.result, self.timed_out = [], [], None, False
        self.log_bytes = 0
        self.nonce, self.id = base64.b64encode(os.urandom(12)).decode(), "run-1"
        self.end = time.monotonic() + seconds
        self.temporary = tempfile.mkdtemp(prefix="atoll-engine-")
        host, guest = socket.socketpair()
        environment = {name: value.replace("$TMP", self.temporary) for name, value in engine["environment"].items()}
        environment["ATOLL_CANARY"] = "atoll-canary"
        command = [str(folder / engine["command"][0]) if "/" in engine["command"][0] else engine["command"][0],
                   *engine["command"][1:]]
        if "prlimit" in program:
            command = ["prlimit", "--core=0", *program["prlimit"], *command]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, cwd=folder, stdin=guest, stdout=guest, stderr=errors, env=environment,
                                       start_new_session=True)
            guest.close()
            try:
                self.talk(host, engine, program)
            except Broken as error:
                errors.seek(0)
                raise Broken(f"{error}; stderr: {errors.read(2000).decode(errors='replace')}") from None
            finally:
                host.close()
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
                shutil.rmtree(self.temporary, ignore_errors=True)

    def receive(self, host, size):
        data = b""
        while len(data) < size:
            left = self.end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            host.settimeout(left)
            try:
                part = host.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise Broken("the runner ended without a result")
            data += part
        return data

    def frame(self, host):
        length = struct.unpack(">I", self.receive(host, 4))[0]
        if length > MAX_FRAME:
            raise Broken(f"a frame of {length} bytes")
        return checked(self.receive(host, length))

    @staticmethod
    def send(host, message):
        body = json.dumps(message).encode()
        host.sendall(struct.pack(">I", len(body)) + body)

    def talk(self, host, engine, program):
        ready = self.frame(host)
        if ready.get("type") != "ready" or ready.get("engine") != engine["name"] or not ready.get("version"):
            raise Broken(f"not ready: {ready}")
        named = {"run": self.id, "nonce": self.nonce}
        tools, limits = program.get("tools", {}), {**LIMITS, **program.get("limits", {})}
        self.send(host, {"type": "start", **named, "language": program.get("language") or engine["languages"][0],
                         "code": program["code"], "tools": list(tools), "limits": limits})
        try:
            while self.result is None:
                message = self.frame(host)
                if message.get("run") != self.id or message.get("nonce") != self.nonce:
                    raise Broken(f"a frame of another run: {message}")
                if message["type"] == "log":
                    self.logs.append(message)
                    self.log_bytes += len(message["text"].encode()) + 16
                    if self.log_bytes > limits["maxLogBytes"] + LOG_SLACK:
                        raise Broken("more logs than allowed")
                elif message["type"] == "call":
                    if message["id"] != len(self.calls) + 1 or message["name"] not in tools:
                        raise Broken(f"an impossible call: {message}")
                    self.calls.append([message["name"], *message["args"]])
                    tool = tools[message["name"]]
                    if not tool.get("never"):
                        self.send(host, {"type": "call_result", **named, "id": message["id"], **exact(answer(tool, message["args"]))})
                elif message["type"] == "result":
                    self.result = message
                else:
                    raise Broken(f"an unknown frame: {message}")
        except TimeoutError:
            self.timed_out = True
