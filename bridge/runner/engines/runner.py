"""The Python engine of code mode: runs one program and ends. Started as `python3 -I runner.py`, standard library only.

fd 0 and fd 1, two pipes or one stream socket, carry frames: 4 bytes big-endian length, then a UTF-8 JSON object.
docs/code-mode-python.md has the frames, the values and what this engine does not isolate. The main thread runs the program;
a thread reads what the host answers, so that a program may make loops of its own (asyncio.run).
"""

import sys

sys.dont_write_bytecode = True

import asyncio  # noqa: E402
import collections  # noqa: E402
import inspect  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import struct  # noqa: E402
import threading  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import python_guard  # noqa: E402
import python_logs  # noqa: E402
import python_program  # noqa: E402
import python_values  # noqa: E402

MAX_FRAME_BYTES = 4 * 1024 * 1024
OPEN_CALLS = 32  # the host ends a run with more of them
_CAUSES = 8
_MESSAGE_CHARS = 64 * 1024 + 1  # one more than the server keeps, which marks what it cuts


class ToolError(Exception):
    """A tool that failed, was refused, or does not exist; the message is the host's."""


class Channel:
    """Frames over fd 0 and 1. The host's bytes are checked; anything else than a frame ends the process with status 2."""

    def __init__(self):
        self._input, self._output = os.dup(0), os.dup(1)
        self._lock = threading.Lock()
        self._head = {}
        # The program finds an empty input on fd 0, and what it writes to fd 1 becomes diagnostics.
        reading, writing = os.pipe()
        os.dup2(reading, 0)
        os.dup2(2, 1)
        os.close(reading)
        os.close(writing)

    def name_run(self, run, nonce):
        self._head = {"run": run, "nonce": nonce}

    def send(self, kind, **fields):
        body = json.dumps({"type": kind, **self._head, **fields}, separators=(",", ":"), ensure_ascii=False)
        raw = body.encode("utf-8")
        if len(raw) > MAX_FRAME_BYTES:
            raise python_values.ValueRefused(f"a frame of {len(raw)} bytes is larger than {MAX_FRAME_BYTES} bytes")
        with self._lock:
            left = memoryview(struct.pack(">I", len(raw)) + raw)
            while left:
                left = left[os.write(self._output, left) :]

    def _exactly(self, count):
        parts = bytearray()
        while len(parts) < count:
            some = os.read(self._input, min(count - len(parts), 65536))
            if not some:
                return None
            parts += some
        return bytes(parts)

    def receive(self):
        """The next frame; None at the end. Raises ValueError for what is no frame of this run."""
        head = self._exactly(4)
        if head is None:
            return None
        (size,) = struct.unpack(">I", head)
        if size > MAX_FRAME_BYTES:
            raise ValueError("a frame is too large")
        body = self._exactly(size)
        if body is None:
            return None
        frame = json.loads(body)
        if not isinstance(frame, dict) or any(frame.get(key) != value for key, value in self._head.items()):
            raise ValueError("a frame of another run")
        return frame


class Calls:
    """The tool calls of a run: numbered from 1, answered from the reading thread."""

    def __init__(self, channel, limits):
        self._channel = channel
        self._lock = threading.Lock()
        self._waiting = {}
        self._held = collections.deque()
        self._open = 0
        self._count = 0
        self._max_calls = limits["maxCalls"]
        self._max_bytes = limits["maxValueBytes"]

    def begin(self, name, args):
        """Sends the call at once and returns the coroutine that waits for its answer."""
        if self._count >= self._max_calls:
            raise ToolError(f"more than {self._max_calls} tool calls")
        plain = python_values.encode_arguments(args, self._max_bytes, f"the arguments of {name}")
        slot = {"answer": None, "wake": None}
        with self._lock:
            self._count += 1
            number = self._count
            self._waiting[number] = slot
            if self._open == OPEN_CALLS:
                self._held.append((number, name, plain))
            else:
                self._open += 1
                self._channel.send("call", id=number, name=name, args=plain)
        return self._answer(slot)

    async def _answer(self, slot):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if slot["answer"] is None:
                slot["wake"] = (loop, future)
        if slot["answer"] is None:
            await future
        frame = slot["answer"]
        if "error" in frame:
            raise ToolError(_host_message(frame["error"]))
        try:
            return python_values.decode(frame.get("result"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ToolError(f"the answer is malformed: {_text(error)}") from None

    def answered(self, frame):
        with self._lock:
            slot = self._waiting.pop(frame.get("id"), None)
            if slot is None:
                raise ValueError("an answer to no open call")
            slot["answer"] = frame
            wake = slot["wake"]
            if self._held:
                number, name, plain = self._held.popleft()
                self._channel.send("call", id=number, name=name, args=plain)
            else:
                self._open -= 1
        if wake is None:
            return
        loop, future = wake
        try:
            loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))
        except RuntimeError:
            pass  # The program has closed that loop and no longer waits.


def _host_message(error):
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else "the tool failed"


def make_codemode(calls, tools):
    """The object `codemode`: an attribute for each tool, whatever its name, and nothing else. codemode["name"] is the same."""
    known = frozenset(tools)

    def tool(name):
        if name not in known:
            raise AttributeError(f"no tool named {name!r}; there are: {', '.join(tools) or 'none'}")

        def call(*args, **kwargs):
            return calls.begin(name, [*args, kwargs] if kwargs else list(args))

        return call

    class Codemode:
        __slots__ = ()

        def __getattribute__(self, name):
            return tool(name)

        def __getitem__(self, name):
            return tool(name)

        def __setattr__(self, name, _value):
            raise TypeError(f"codemode is fixed: {name} cannot be set")

        def __delattr__(self, name):
            raise TypeError(f"codemode is fixed: {name} cannot be deleted")

        def __dir__(self):
            return list(tools)

        def __repr__(self):
            return f"<codemode: {', '.join(tools)}>"

    return Codemode()


def _text(error):
    try:
        text = str(error)
    except BaseException as inner:
        text = f"(its message cannot be read: {type(inner).__name__})"
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _line(error):
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == python_program.FILE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def describe(error):
    """The `error` of a result frame: kind, message with its causes, and the line of the program where it has one."""
    kind = "runtime"
    if isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, python_guard.Denied):
        kind = "denied"
    line = _line(error)
    parts = [_text(error)]
    if isinstance(error, BaseExceptionGroup):
        parts[0] += " (" + "; ".join(_text(inner) for inner in error.exceptions[:_CAUSES]) + ")"
    inner = error
    for _ in range(_CAUSES):
        inner = inner.__cause__ or (None if inner.__suppress_context__ else inner.__context__)
        if inner is None:
            break
        parts.append(f"caused by {_text(inner)}")
    message = python_values.clean_text("; ".join(parts)[:_MESSAGE_CHARS])
    return {"kind": kind, "message": message, **({"line": line} if line else {})}


def _described(error):
    try:
        return describe(error)
    except BaseException:  # A program's own exception may refuse even to show its cause.
        return {"kind": "runtime", "message": "an exception that cannot be described"}


NOTHING = object()


async def _awaited(value):
    return await value


def _outcome(done, scope, returns):
    """(value, whether it was returned): `return X` gives a tuple of one, so that None can be told from nothing."""
    if returns and done is not None:
        return done[0], True
    return scope.pop(python_program.VALUE, None), False


async def _in_loop(started, scope, returns):
    value, is_returned = _outcome(await started, scope, returns)
    return (await value if inspect.isawaitable(value) else value), is_returned


def execute(code, names):
    """Runs the program to its end. Returns its value, or NOTHING; a value that can be awaited is awaited first."""
    program, returns = code
    scope = {"__name__": "__main__", "__builtins__": names, "__doc__": None}
    started = eval(program, scope)
    if returns:
        started = scope.pop(python_program.MAIN)()
    if inspect.iscoroutine(started):
        value, is_returned = asyncio.run(_in_loop(started, scope, returns))
    else:
        value, is_returned = _outcome(started, scope, returns)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
    return NOTHING if value is None and not is_returned else value


def outcome(text, names, max_bytes):
    """The fields of the result frame, whatever the program does."""
    try:
        code = python_program.compiled(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        line = getattr(error, "lineno", None)
        where = {"line": line} if line else {}
        text = python_values.clean_text(f"{type(error).__name__}: {message}"[:_MESSAGE_CHARS])
        return {"error": {"kind": "syntax", "message": text, **where}}
    try:
        value = execute(code, names)
        return {} if value is NOTHING else {"value": python_values.encode(value, max_bytes, "the result")}
    except SystemExit as error:
        if error.code in (None, 0):
            return {}
        return {"error": _described(error)}
    except BaseException as error:
        return {"error": _described(error)}


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def started_run(frame):
    """The checked `start` frame. Raises ValueError."""
    texts = isinstance(frame, dict) and all(isinstance(frame.get(key), str) for key in ("run", "nonce", "code"))
    if not texts or frame.get("type") != "start":
        raise ValueError("the first frame is no start")
    if frame.get("language", "python") != "python":
        raise ValueError("this engine runs python")
    tools = frame.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(name, str) for name in tools):
        raise ValueError("tools is no list of names")
    limits = frame.get("limits")
    names = ("maxCalls", "maxValueBytes", "maxLogBytes")
    if not isinstance(limits, dict) or not all(_is_count(limits.get(name)) for name in names):
        raise ValueError("limits are missing")
    return frame


def _stop(status, why):
    os.write(2, f"runner: {why}\n".encode("utf-8", "replace"))
    os._exit(status)


def _read_answers(channel, calls):
    try:
        while True:
            frame = channel.receive()
            if frame is None:
                os._exit(0)
            if frame.get("type") != "call_result":
                raise ValueError("a frame that may not come now")
            calls.answered(frame)
    except Exception as error:
        _stop(2, f"protocol: {error}")


def main():
    """Serves one run and never returns."""
    channel = Channel()
    channel.send("ready", engine="python", version=".".join(str(part) for part in sys.version_info[:3]))
    try:
        frame = channel.receive()
        if frame is None:
            os._exit(0)
        frame = started_run(frame)
    except (ValueError, RecursionError) as error:
        _stop(2, f"protocol: {error}")
    channel.name_run(frame["run"], frame["nonce"])
    limits = frame["limits"]
    journal = python_logs.Journal(lambda level, text: channel.send("log", level=level, text=text), limits["maxLogBytes"])
    program_print, finish_logs = python_logs.install(journal)
    calls = Calls(channel, limits)
    names = python_guard.program_builtins(
        {
            "codemode": make_codemode(calls, frame.get("tools", [])),
            "ToolError": ToolError,
            "print": program_print,
            python_program.GUARD: python_guard.Guard(),
        }
    )
    threading.Thread(target=_read_answers, args=(channel, calls), daemon=True).start()
    sys.setrecursionlimit(5000)
    python_guard.harden(names)
    fields = outcome(frame["code"], names, limits["maxValueBytes"])
    try:
        finish_logs()
        channel.send("result", **fields)
    except (OSError, ValueError, TypeError) as error:
        _stop(2, f"the result cannot be sent: {error}")
    os._exit(0)


if __name__ == "__main__":
    main()
