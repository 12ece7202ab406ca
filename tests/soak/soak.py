"""Works a server hard and compares its resources before and after (scripts/soak)."""

import argparse
import collections
import http.client
import os
import random
import re
import signal
import sys
import threading
import time

import footprint
from server import Server

WORKERS = 6
MOST_CONVERSATIONS = 12
SETTLE_SECONDS = 90
ROOT = "/v1/conversations"
COMMANDS = (
    "echo hello",
    "seq 2000",
    "head -c 2000000 /dev/zero > file; ls -l",
    "mkdir -p a/b/c; touch a/b/c/{1..50}; rm -rf a",
    "for i in 1 2 3 4; do echo $i; done >&2; exit 3",
    "x=$(yes | head -c 80000000); echo ${#x}",  # over some limits, within others
    "kill -9 -1",
    "sleep 1000",
)
TOOLS = (
    ("write_file", {"path": "/workspace/t/a", "content": "one\ntwo\n"}),
    ("read_file", {"path": "/workspace/t/a"}),
    ("search_file_content", {"pattern": "two", "path": "/workspace"}),
    ("glob", {"pattern": "**/*"}),
    ("list_directory", {"path": "/workspace"}),
)
# Allowed answers while others delete, pause and kill at the same time. Any other answer is a defect.
EXPECTED = {404, 409}
# bridge_failed: its sandbox was killed, and the call heard of its broken stream first.
EXPECTED_CODES = {"sandbox_failed", "capacity", "sandbox_gone", "too_many_processes", "disk_full", "bridge_failed"}


class Conversations:
    """Ids that the workers share."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ids = []

    def add(self, one):
        with self.lock:
            self.ids.append(one)

    def pick(self, chance):
        with self.lock:
            return chance.choice(self.ids) if self.ids else None

    def take(self, chance):
        with self.lock:
            return self.ids.pop(chance.randrange(len(self.ids))) if self.ids else None

    def count(self):
        with self.lock:
            return len(self.ids)


class Worker(threading.Thread):
    def __init__(self, server, conversations, seed, until):
        super().__init__()
        self.server = server
        self.client = server.connect()
        self.conversations = conversations
        self.chance = random.Random(seed)
        self.until = until
        self.done = collections.Counter()
        self.wrong = []

    def run(self):
        actions = (
            (self.message, 40), (self.create, 15), (self.delete, 12), (self.pause, 9), (self.resume, 9),
            (self.interrupt, 9), (self.read, 4), (self.kill, 2), (self.command, 12), (self.files, 12),
            (self.process, 8), (self.tool, 8),
        )  # fmt: skip
        kinds, weights = zip(*actions)
        while time.monotonic() < self.until:
            action = self.chance.choices(kinds, weights)[0]
            try:
                action()
            except Exception as error:  # told in the report, whatever it is
                self.wrong.append(f"{action.__name__}: {error!r}")
                self.client = self.server.connect()
            self.done[action.__name__] += 1

    def ask(self, what, method, path, body=None, accept="application/json"):
        status, answer = self.client.call(method, path, body, accept)
        code = answer.get("code") if isinstance(answer, dict) else None
        if status >= 400 and status not in EXPECTED and code not in EXPECTED_CODES:
            self.wrong.append(f"{what}: {status} {answer}")
        return status, answer

    def create(self):
        if self.conversations.count() >= MOST_CONVERSATIONS:
            return self.delete()
        limits = {"memoryMb": self.chance.choice((64, 256)), "maxProcesses": 32, "diskMb": 64}
        status, answer = self.ask("create", "POST", ROOT, {"agent": "shell", "limits": limits})
        if status == 201:
            self.conversations.add(answer["id"])

    def message(self):
        one = self.conversations.pick(self.chance)
        if one is None:
            return self.create()
        command = self.chance.choice(COMMANDS)
        follow = command != "sleep 1000" and self.chance.random() < 0.7
        accept = "text/event-stream" if follow else "application/json"
        status, answer = self.ask("message", "POST", f"{ROOT}/{one}/messages", {"content": command}, accept)
        ends = ('"type":"done"', '"type":"stream_closed"')
        if status == 200 and not any(end in answer for end in ends):
            self.wrong.append(f"a turn's stream ended without a last word: {answer[-300:]!r}")

    def delete(self):
        one = self.conversations.take(self.chance)
        if one is not None:
            self.ask("delete", "DELETE", f"{ROOT}/{one}")

    def pause(self):
        self.act("pause")

    def resume(self):
        self.act("resume")

    def interrupt(self):
        self.act("interrupt")

    def act(self, what):
        one = self.conversations.pick(self.chance)
        if one is not None:
            self.ask(what, "POST", f"{ROOT}/{one}/{what}")

    def read(self):
        one = self.conversations.pick(self.chance)
        status, answer = self.ask("read", "GET", f"{ROOT}/{one}") if one is not None else (404, None)
        if status == 200:
            self.ask("events", "GET", f"{ROOT}/{one}/events?limit=1000")
            self.ask("metrics", "GET", f"/v1/sandboxes/{answer['sandboxId']}/metrics")
            self.ask("logs", "GET", f"/v1/sandboxes/{answer['sandboxId']}/logs")

    def inside(self):
        """The address of some conversation's sandbox; None without one."""
        one = self.conversations.pick(self.chance)
        status, answer = self.ask("read", "GET", f"{ROOT}/{one}") if one is not None else (404, None)
        return f"/v1/sandboxes/{answer['sandboxId']}" if status == 200 else None

    def command(self):
        if where := self.inside():
            wanted = {"command": self.chance.choice(COMMANDS), "timeoutMs": 500}
            accept = self.chance.choice(("application/json", "text/event-stream"))
            self.ask("exec", "POST", f"{where}/exec", wanted, accept)

    def files(self):
        if where := self.inside():
            name = f"{where}/files/soak/{self.chance.randrange(20)}"
            bytes_ = b"x" * self.chance.choice((10, 300_000))
            for method, path, body in (
                ("PUT", name, bytes_), ("GET", name, None), ("GET", f"{where}/files/?list=1&depth=3", None),
                ("POST", name, {"op": "copy", "to": "/workspace/copy"}), ("GET", f"{where}/archive", None),
                ("DELETE", f"{where}/files/copy?recursive=1", None),
            ):  # fmt: skip
                try:
                    if self.ask("files", method, path, body)[0] >= 400:
                        return
                except (ConnectionResetError, http.client.IncompleteRead):
                    # Its sandbox ended within the answer, which is then broken off; a request is answered.
                    if method != "GET":
                        raise
                    self.client = self.server.connect()
                    return

    def process(self):
        if where := self.inside():
            wanted = {"command": "cat; sleep 100", **self.chance.choice(({}, {"pty": {"cols": 80, "rows": 24}}))}
            status, made = self.ask("process", "POST", f"{where}/processes", wanted)
            if status == 201 and self.chance.random() < 0.7:
                name = f"{where}/processes/{made['processId']}"
                self.ask("stdin", "POST", f"{name}/stdin", b"hello\n")
                self.ask("signal", "POST", f"{name}/signal", {"signal": "SIGKILL"})
                self.ask("processes", "GET", f"{where}/processes")

    def tool(self):
        if where := self.inside():
            name, arguments = self.chance.choice(TOOLS)
            wanted = {"sandboxId": where.rsplit("/", 1)[1], "args": arguments}
            self.ask("tool", "POST", f"/v1/tools/{name}", wanted)

    def kill(self):
        """A bubblewrap of this server dies of a signal from outside."""
        pids = footprint.children(self.server.pid)
        self.chance.shuffle(pids)
        for pid in pids:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue  # it has ended
            # The number may be another's by now; what is seen to be ours while the handle is held stays so.
            ours = footprint.name_of(pid) == "bwrap" and pid in footprint.children(self.server.pid)
            try:
                if ours:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    return
            except ProcessLookupError:
                pass  # it ended meanwhile
            finally:
                os.close(pidfd)


def work(server, conversations, seed, seconds):
    """(how often each was done, the failures)."""
    until = time.monotonic() + seconds
    workers = [Worker(server, conversations, seed + number, until) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum((worker.done for worker in workers), collections.Counter()), [w for k in workers for w in k.wrong]


def settle(server, conversations):
    """Deletes everything and waits until the server is idle; returns the resources that it then holds."""
    client = server.connect()
    # Also conversations of requests whose answer was lost.
    for one in client.call("GET", f"{ROOT}?limit=10000")[1]["conversations"]:
        client.call("DELETE", f"{ROOT}/{one['id']}")
    conversations.ids.clear()
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        samples = client.metrics()
        busy = sum(value for name, value in samples.items() if name.startswith("atoll_queue_depth"))
        there = sum(v for n, v in samples.items() if n.startswith(("atoll_sandboxes{", "atoll_conversations{")))
        if (busy == 0 and there == 0) or time.monotonic() > until:
            return footprint.measure(server, samples), samples


def main():
    parser = argparse.ArgumentParser(usage="scripts/soak [--seconds N] [--seed N]")
    parser.add_argument("binaries")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    given = parser.parse_args()
    seconds = max(given.seconds, 10)
    print(f"soak: {seconds} s, seed {given.seed}", flush=True)
    server = Server(given.binaries)
    conversations = Conversations()
    failures = []
    try:
        early, wrong = work(server, conversations, given.seed, seconds / 5)
        first, _ = settle(server, conversations)
        late, more = work(server, conversations, given.seed + WORKERS, seconds * 4 / 5)
        last, samples = settle(server, conversations)
        failures += (wrong + more)[:20]
        failures += [f"{name} grew" for name in footprint.report(first, last)]
        done = early + late
        print("done:", ", ".join(f"{count} {name}" for name, count in sorted(done.items())))
        ends = {re.search('"(.*)"', n)[1]: int(v) for n, v in samples.items() if n.startswith("atoll_sandbox_exits")}
        print("ends of sandboxes:", ", ".join(f"{count} {name}" for name, count in ends.items() if count))
        if min(done[name] for name in ("create", "message", "pause", "resume", "delete")) == 0:
            failures.append("not everything was done: the server is too slow, or the time too short")
    finally:
        logged = server.logged()
        status = server.stop()
    failures += [line for line in logged.splitlines() if re.search(r"evt=(task_failed|store_failed)", line)][:20]
    if status != 0:
        failures.append(f"the server ended with {status}: {logged[-2000:]}")
    for failure in failures:
        print(f"soak: {failure}")
    print("soak: failed" if failures else "soak: passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
