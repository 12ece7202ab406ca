#!/usr/bin/env -S python3 -B
"""Usage: hostile_host.py: the Python runner of this checkout, given frames split at each byte, and what is no frame. TAP."""

import json
import pathlib
import socket
import struct
import subprocess
import sys

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "bridge/runner/engines/runner.py"
LIMITS = {"maxCalls": 5, "maxValueBytes": 1000, "maxLogBytes": 1000}
NAMED = {"run": "r", "nonce": "n"}
START = {"type": "start", **NAMED, "language": "python", "code": "return 'é' + await codemode.a()", "tools": ["a"], "limits": LIMITS}
ANSWER = {"type": "call_result", **NAMED, "id": 1, "result": "ü"}


def framed(body):
    raw = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return struct.pack(">I", len(raw)) + raw


def talk(pieces, answer=b"", last=False):
    """(frames that came, exit status) for a runner that is sent the pieces, and `answer` once it calls."""
    near, far = socket.socketpair()
    with near, subprocess.Popen(["python3", "-I", RUNNER], stdin=far, stdout=far, stderr=subprocess.DEVNULL) as child:
        far.close()
        near.settimeout(60)
        frames = []
        with near.makefile("rb") as reading:
            try:
                for piece in pieces:
                    near.sendall(piece)
                if last:
                    near.shutdown(socket.SHUT_WR)
                while head := reading.read(4):
                    frames.append(json.loads(reading.read(struct.unpack(">I", head)[0])))
                    if frames[-1]["type"] == "call":
                        near.sendall(answer)
            except (BrokenPipeError, ConnectionResetError):
                pass
        return frames, child.wait(60)


def refused(body):
    frames, status = talk([body])
    return status == 2 and [frame["type"] for frame in frames] == ["ready"]


def answered(body):
    frames, status = talk([framed(START)], body)
    return status == 2 and [frame["type"] for frame in frames] == ["ready", "call"]


def whole(pieces):
    frames, status = talk(pieces, framed(ANSWER))
    return status == 0 and frames[-1].get("value") == "éü"


def main():
    start = framed(START)
    cases = {
        "a frame in pieces of one byte": lambda: whole([bytes([byte]) for byte in start]),
        "a length that is split": lambda: whole([start[:2], start[2:]]),
        "a character that is split": lambda: whole([start[: start.index(b"\xc3") + 1], start[start.index(b"\xc3") + 1 :]]),
        "an end within a frame": lambda: talk([start[:20]], last=True)[1] == 0,
        "no UTF-8": lambda: refused(framed(b'{"type":"\xff"}')),
        "no JSON": lambda: refused(framed(b"{")),
        "an empty frame": lambda: refused(framed(b"")),
        "a frame of 4 GiB": lambda: refused(b"\xff\xff\xff\xff"),
        "a list": lambda: refused(framed([])),
        "nesting of 100,000": lambda: refused(framed(b"[" * 100000)),
        "an int of 100,000 digits": lambda: refused(framed(b'{"id":' + b"9" * 100000 + b"}")),
        "no limits": lambda: refused(framed({**START, "limits": {}})),
        "limits of NaN": lambda: refused(framed({**START, "limits": {**LIMITS, "maxCalls": float("nan")}})),
        "an answer of another run": lambda: answered(framed({**ANSWER, "nonce": "m"})),
        "an answer to no call": lambda: answered(framed({**ANSWER, "id": 2})),
        "an answer whose id is a list": lambda: answered(framed({**ANSWER, "id": []})),
        "an answer without UTF-8": lambda: answered(framed(b"\xff")),
        "an answer nested 100,000 deep": lambda: answered(framed(b"[" * 100000)),
        "a second start": lambda: answered(start),
    }
    failed = 0
    for number, (name, holds) in enumerate(cases.items(), 1):
        is_right = holds()
        failed += not is_right
        print(f"{'ok' if is_right else 'not ok'} {number} - {name}", flush=True)
    print(f"1..{len(cases)}\n# pass {len(cases) - failed}\n# fail {failed}\n# skipped 0")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__ if sys.argv[1] != "-h" else print(__doc__))
    sys.exit(main())
