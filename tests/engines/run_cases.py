#!/usr/bin/env -S python3 -B
"""Usage: run_cases.py EXECUTORS [--server ATOLLD] [ENGINE] [CASE]: runs the cases of cases/*.json on the engines installed in
the folder EXECUTORS (scripts/setup --executors), with the runners of this checkout; with --server through a server, which gives
each a sandbox. One line a case and engine, in TAP.

ATOLL_TEST_FULL=1 runs all; otherwise a fifth, drawn by ATOLL_TEST_SEED. A case has `code`, and what is expected:
`result` (a tagged value; `null` in `absent` for none), `error` (a kind) with `message` (a pattern) and `line`, `logs`
(patterns of all entries), `calls`, `timeout`, `times` or `together` (runs), `within` (cold starts all runs may take,
with ATOLL_TEST_FULL=1),
`broken` (why the host ends the run: a pattern), `dies` (an error of memory, or an end without a result, under the
`prlimit` given). `@RUN@` in `code` and `result` is the number of the run, from 1. `language` picks the engines (default: javascript), `engines` has changes to a case for an engine, by
its name; `server` has those for --server, where `memoryMb` is the run's (default: 256). Before the cases each executable, not
restricted, is seen to reach the bait: listener, secret file, variable.
"""

import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine_host import SECONDS, Broken, Run, place_runners
from server_host import Server, ServerRun

HERE = Path(__file__).resolve().parent


def wrong(case, run):
    """Why the run is not what the case wants; None if it is."""
    if "broken" in case:
        return "the run has a result"
    if case.get("dies"):
        error = (run.result or {}).get("error", {})
        return None if error.get("kind") == "memory" or "allocation" in error.get("message", "") else f"wanted it to die, got {run.result}"
    if run.timed_out or case.get("timeout"):
        return None if run.timed_out and case.get("timeout") else f"timed out: {run.timed_out}"
    error = run.result.get("error")
    if case.get("error"):
        if not error or error["kind"] != case["error"] or not re.search(case.get("message", ""), error["message"], re.S):
            return f"wanted an error {case['error']} {case.get('message', '')!r}, got {run.result}"
        if "line" in case and error.get("line") != case["line"]:
            return f"wanted line {case['line']}, got {error}"
    elif error:
        return f"error {error}"
    if ("result" in case) and run.result.get("value") != case["result"]:
        return f"wanted {case['result']!r}, got {run.result.get('value')!r}"
    if ("absent" in case or case.get("error")) and "value" in run.result:
        return f"a value: {run.result}"
    if "matches" in case and not re.search(case["matches"], str(run.result.get("value"))):
        return f"wanted {case['matches']!r}, got {run.result}"
    if "calls" in case and run.calls != case["calls"]:
        return f"wanted calls {case['calls']}, got {run.calls}"
    if "logs" in case:
        got = [f"{log['level']} {log['text']}" for log in run.logs]
        if len(got) != len(case["logs"]) or not all(re.search(want, text, re.S) for want, text in zip(case["logs"], got)):
            return f"wanted logs {case['logs']}, got {got}"
    return None


class Bait:
    """The things that a program must not reach: a listener on loopback, a readable file, a variable. Each is seen to be reachable."""

    def __init__(self, folder):
        self.reached = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.secret = Path(folder) / "secret"
        self.secret.write_text("atoll-secret")
        os.chmod(folder, 0o755)
        # A sandbox of root's server has another uid: permissions are not what is to keep the secret.
        if not self.secret.stat().st_mode & 0o004:
            sys.exit(f"others cannot read {self.secret}: run this with a umask of 022")
        threading.Thread(target=self.accept, daemon=True).start()
        with socket.create_connection(("127.0.0.1", self.port)) as control:
            if control.recv(4) != b"bait" or self.secret.read_text() != "atoll-secret":
                sys.exit("the bait itself cannot be reached")
        self.reached = 0

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            self.reached += 1
            connection.sendall(b"bait")
            connection.close()

    def control(self, engine, folder):
        """Ends the test unless this engine's executable, told nothing of limits, reaches all three."""
        command = engine["command"][0]
        if command.endswith("python3"):
            return
        script = ("const { readFileSync } = await import('node:fs'), { connect } = await import('node:net');"
                  "const { env, exit } = await import('node:process');"
                  f"await new Promise((done) => connect({self.port}, '127.0.0.1').on('data', done));"
                  f"console.log(readFileSync({json.dumps(str(self.secret))}, 'utf8'), env.ATOLL_CANARY); exit(0);")
        words = ["eval"] if command.endswith("deno") else ["--input-type=module", "--eval"]
        before = self.reached
        done = subprocess.run([str(folder / command), *words, script], capture_output=True, text=True, timeout=SECONDS, check=False,
                              env={"ATOLL_CANARY": "atoll-canary", "DENO_DIR": str(self.secret.parent / "deno")})
        if done.stdout != "atoll-secret atoll-canary\n" or self.reached == before:
            sys.exit(f"{command} without restrictions does not reach the bait: {done.stdout}{done.stderr}")

    def fill(self, code):
        return code.replace("@PORT@", str(self.port)).replace("@SECRET@", str(self.secret))


def of_run(case, number):
    """The case for one of its runs."""
    filled = json.dumps({name: case[name] for name in ("code", "result") if name in case}).replace("@RUN@", str(number))
    return {**case, **json.loads(filled)}


def cold_start(engine, run):
    """Seconds of the fastest of three runs of an empty program: what a time of this engine is compared with."""
    spans = []
    for _ in range(3):
        began = time.monotonic()
        run(engine, {"code": ""})
        spans.append(time.monotonic() - began)
    return min(spans)


def load():
    cases = []
    for path in sorted((HERE / "cases").glob("*.json")):
        for case in json.loads(path.read_text()):
            cases.append({**case, "name": f"{path.stem}: {case['name']}"})
    return cases


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    place_runners(folder)
    is_full = os.environ.get("ATOLL_TEST_FULL") == "1"
    server = None
    if "--server" in sys.argv:
        at = sys.argv.index("--server")
        server = Server(sys.argv[at + 1], folder)
        del sys.argv[at : at + 2]

    def run(engine, program, seconds=SECONDS):
        return ServerRun(engine, server, program, seconds) if server else Run(engine, folder, program, seconds)

    engines = json.loads((folder / "runner/engines.json").read_text())["engines"]
    pairs = []
    for engine in engines:
        if len(sys.argv) > 2 and engine["name"] != sys.argv[2]:
            continue
        for case in load():
            mine = {**case, **case.get("engines", {}).get(engine["name"], {}), **(case.get("server", {}) if server else {})}
            # No request can set the limit of values, nor speak to the engine as a host that breaks the protocol.
            is_apart = server and ("maxValueBytes" in case.get("limits", {}))
            if case.get("language", "javascript") in engine["languages"] and not is_apart:
                pairs.append((engine, mine))
    if len(sys.argv) > 3:
        pairs = [pair for pair in pairs if re.search(sys.argv[3], pair[1]["name"])]
    elif not is_full:
        drawn = random.Random(int(os.environ.get("ATOLL_TEST_SEED", "1")))
        pairs = [pair for pair in pairs if drawn.random() < 1 / 5]
    counts = {"pass": 0, "fail": 0}
    with tempfile.TemporaryDirectory(prefix="atoll-bait-") as bait_folder:
        bait = Bait(bait_folder)
        colds = {}
        for engine in {engine["command"][0]: engine for engine, _ in pairs}.values():
            bait.control(engine, folder)
        for number, (engine, case) in enumerate(pairs, 1):
            before = bait.reached
            try:
                program = {**case, "code": bait.fill(case["code"])}
                programs = [of_run(program, number + 1) for number in range(case.get("together", case.get("times", 1)))]
                began = time.monotonic()
                with ThreadPoolExecutor(case.get("together", 1)) as pool:
                    runs = list(pool.map(lambda one: run(engine, one, case.get("seconds", SECONDS)), programs))
                took = time.monotonic() - began
                reason = next(filter(None, map(wrong, programs, runs)), None)
                if is_full and "within" in case:
                    name = engine["name"]
                    colds[name] = colds.get(name) or cold_start(engine, run)
                    if took > case["within"] * colds[name]:
                        reason = f"{took:.3f} s, with a cold start of {colds[name]:.3f} s"
                told = json.dumps([[run.result, run.logs] for run in runs])
                if bait.reached != before:
                    reason = "the listener was reached"
                if "atoll-secret" in told or "atoll-canary" in told:
                    reason = "a secret was told"
            except Broken as error:
                is_wanted = re.search(case.get("broken", "(?!)"), str(error), re.S) or (
                    case.get("dies") and "ended without a result" in str(error))
                reason = None if is_wanted else str(error)
            counts["fail" if reason else "pass"] += 1
            print(f"{'not ok' if reason else 'ok'} {number} - {engine['name']}: {case['name']}", flush=True)
            if reason:
                print(f"#   {reason[:1500]}", flush=True)
    if server:
        server.close()
    print(f"1..{len(pairs)}\n# pass {counts['pass']}\n# fail {counts['fail']}\n# skipped 0")
    sys.exit(1 if counts["fail"] or not pairs else 0)


main()
