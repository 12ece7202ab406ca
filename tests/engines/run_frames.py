#!/usr/bin/env -S python3 -B
"""Usage: run_frames.py EXECUTORS ENGINE: what a runner does with frames that the protocol does not allow, in TAP. It must end
with status 1 and without a result. A control sends the same frames as they should be; another shows that the harness of
run_cases.py takes no frame that lacks the nonce. ATOLL_TEST_FULL=1 sends all; otherwise a quarter, drawn by ATOLL_TEST_SEED.
"""

import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from engine_host import LIMITS, Broken, Run, place_runners

RUNNERS = Path(__file__).resolve().parents[2] / "bridge/runner/engines"
NAMED = {"run": "run-1", "nonce": "n0nce"}
START = {"type": "start", **NAMED, "language": "javascript", "code": "return await codemode.one();", "tools": ["one"], "limits": LIMITS}
RESULT = {"type": "call_result", **NAMED, "id": 1, "result": 7}


def framed(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def without(name):
    return {key: value for key, value in START.items() if key != name}


# Name: what is sent at once, and what is sent after the first call. The call of `control` is answered.
CASES = {
    "control": ([START], [RESULT]),
    "no JSON": ([b"{"], []),
    "JSON that is no object": ([b"[]"], []),
    "null": ([b"null"], []),
    "an empty frame": ([b""], []),
    "bytes that are not UTF-8": ([b'{"type":"start\xff"}'], []),
    "an answer before start": ([RESULT], []),
    "an unknown type": ([{**START, "type": "begin"}], []),
    "another language": ([{**START, "language": "cobol"}], []),
    "code that is no text": ([{**START, "code": 7}], []),
    "tools that are no list": ([{**START, "tools": {"one": 1}}], []),
    "tools that are no texts": ([{**START, "tools": [1]}], []),
    "a limit that is negative": ([{**START, "limits": {**LIMITS, "maxCalls": -1}}], []),
    "a limit that is missing": ([{**START, "limits": {"maxCalls": 1}}], []),
    **{f"start without {name}": ([without(name)], []) for name in ("run", "nonce", "code", "language", "tools", "limits")},
    "a second start": ([START], [START]),
    "an answer of another run": ([START], [{**RESULT, "run": "run-2"}]),
    "an answer with a wrong nonce": ([START], [{**RESULT, "nonce": "other"}]),
    "an answer to no call": ([START], [{**RESULT, "id": 2}]),
    "an answer to a text": ([START], [{**RESULT, "id": "1"}]),
    "an error that is a text": ([START], [{**RESULT, "error": "no"}]),
    "a frame that is too long": ([], [struct.pack(">I", 4 * 1024 * 1024 + 1)]),
}


def read(host):
    """The next frame; None at the end of the stream."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        wanted = 4 if len(data) < 4 else 4 + struct.unpack(">I", data[:4])[0]
        try:
            part = host.recv(wanted - len(data))
        except ConnectionResetError:
            part = b""
        if not part:
            return None
        data += part
    return json.loads(data[4:])


def attempt(engine, folder, first, later):
    """The types of the frames of the runner, and its status."""
    host, guest = socket.socketpair()
    host.settimeout(60)
    with tempfile.TemporaryDirectory(prefix="atoll-engine-") as temporary, host:
        environment = {name: value.replace("$TMP", temporary) for name, value in engine["environment"].items()}
        command = [str(folder / engine["command"][0]), *engine["command"][1:]]
        with subprocess.Popen(command, cwd=folder, stdin=guest, stdout=guest, stderr=subprocess.DEVNULL, env=environment) as process:
            try:
                guest.close()
                seen = [read(host)["type"]]
                for message in first:
                    host.sendall(framed(message))
                while first and (message := read(host)) is not None:
                    seen.append(message["type"])
                    if message["type"] != "call":
                        break
                    for one in later:
                        host.sendall(framed(one))
                if not first:
                    host.sendall(later[0])
                    seen += [message["type"]] if (message := read(host)) else []
                return seen, process.wait(60)
            finally:
                process.kill()


def forger_is_refused(folder):
    """True if a result without the nonce, sent by a program that took over its runner, does not count."""
    frames = [{"type": "ready", "engine": "forger", "version": "1"}, {"type": "result", "run": "run-1", "value": 9}]
    text = repr(b"".join(framed(one) for one in frames))
    forger = {"name": "forger", "languages": ["javascript"], "environment": {},
              "command": ["python3", "-c", f"import os; os.write(1, {text}); os.read(0, 1)"]}
    try:
        Run(forger, folder, {"code": ""})
    except Broken as error:
        return "another run" in str(error)
    return False


def main():
    folder, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    place_runners(folder)
    engines = json.loads((RUNNERS / "engines.json").read_text())["engines"]
    engine = next(one for one in engines if one["name"] == name)
    drawn = random.Random(int(os.environ.get("ATOLL_TEST_SEED", "1")))
    is_full = os.environ.get("ATOLL_TEST_FULL") == "1"
    cases = {case: sent for case, sent in CASES.items() if is_full or case == "control" or drawn.random() < 1 / 4}
    failed = 0
    for number, (case, (first, later)) in enumerate(cases.items(), 1):
        got = attempt(engine, folder, first, later)
        asks = bool(first and later)
        wanted = (["ready", "call", "result"], 0) if case == "control" else (["ready", "call"] if asks else ["ready"], 1)
        failed += got != wanted
        print(f"{'ok' if got == wanted else 'not ok'} {number} - {name}: {case}", flush=True)
        if got != wanted:
            print(f"#   wanted {wanted}, got {got}")
    refused = forger_is_refused(folder)
    failed += not refused
    print(f"{'ok' if refused else 'not ok'} {len(cases) + 1} - {name}: a result without the nonce does not count")
    print(f"1..{len(cases) + 1}\n# pass {len(cases) + 1 - failed}\n# fail {failed}\n# skipped 0")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
