#!/usr/bin/env -S python3 -B
"""Usage: hostile_runs.py EXECUTORS ATOLLD [CASE]: hostile programs and callers, many at once, and the death of the server.

Prints a line for each case, in TAP. Nothing here fails because the host is slow: the deadlines end what hangs. Most programs run on an
engine that gives them all of Python (broken_engine.py) in place of `container`: what stops them is their sandbox.
ATOLL_TEST_FULL=1 takes all bombs in place of five, drawn by ATOLL_TEST_SEED, 1,000 runs in place of 16, 50 at the server's
death in place of 8, 200 at once in place of 10, and waits for the engine that never is ready.
"""

import collections
import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broken_engine import make_broken_engine, make_engine, write_engine
from server_host import Server

FULL = os.environ.get("ATOLL_TEST_FULL") == "1"
SECONDS = 60  # that end what hangs
ENDLESS = "while True: pass"
MADE_AHEAD = 4  # groups with a zygote, where cgroups are of v1 (cgroup/groups.hpp)
SERVING = {"atoll-helper", "atoll-zygote", "bwrap", "guest", "node"}  # whose processes stay while nothing is asked for


class Wrong(Exception):
    """A condition of a case does not hold."""


def want(holds, *told):
    if not holds:
        raise Wrong(" ".join(str(one) for one in told))


def await_true(condition, what):
    """Waits until condition() is true, and gives what it is then."""
    end = time.monotonic() + SECONDS
    while True:
        last = condition()
        if last:
            return last
        want(time.monotonic() < end, "it does not come true in time:", what() if callable(what) else what)


class Client:
    """The requests of a caller to a server."""

    def __init__(self, server):
        self.server = server

    def call(self, status, method, path, body=None, **headers):
        response = self.server.request(method, path, body, **headers)
        text = response.read()
        want(response.status == status, method, path, response.status, text[:500])
        return json.loads(text) if text else None

    def execute(self, code, status=200, executor="container", **form):
        return self.call(status, "POST", "/v1/execute", {"code": code, "executor": executor, **form})

    def kind(self, code, **form):
        return self.execute(code, **form).get("error", {}).get("kind")

    def execution(self, id):
        return self.call(200, "GET", f"/v1/executions/{id}")

    def begin(self, code, **form):
        return self.execute(code, 202, detached=True, **form)["executionId"]

    def outcome(self, id):
        await_true(lambda: self.execution(id)["status"] == "ended", "the end of a run")
        return self.execution(id)["outcome"]

    def message(self, conversation, content):
        response = self.server.request("POST", f"/v1/conversations/{conversation}/messages", {"content": content},
                                       Accept="text/event-stream")
        events = [json.loads(line[6:]) for line in response if line.startswith(b"data: ")]
        want(events and events[-1]["type"] == "done", "the turn did not end:", events)
        return "".join(event["data"]["delta"] for event in events if event["type"] == "text_delta")

    def system(self):
        return self.call(200, "GET", "/v1/system")


class Left:
    """The things that a server has now on this host: nothing of a run may be left in them."""

    def __init__(self, server):
        self.server = server
        instance = (Path(server.data) / "data/instance-id").read_text().strip()
        self.group = "/atoll-" + instance
        self.places = self.find_places()

    def find_places(self):
        """The folders PLACE/atoll-INSTANCE in the hierarchies of cgroups that this server uses."""
        found = set()
        for folder, names, _ in os.walk("/sys/fs/cgroup"):
            found.update(os.path.join(folder, name) for name in names if "/" + name == self.group)
            names[:] = [name for name in names if not name.startswith("atoll-") and folder.count("/") < 8]
        return found

    def groups(self):
        return {os.path.join(place, name) for place in self.places if os.path.isdir(place)
                for name in os.listdir(place) if os.path.isdir(os.path.join(place, name))}

    def processes(self):
        """{(pid, time of its start): name} of all below the server, or in a group of its, wherever they hang."""
        told = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text()
                group = Path(f"/proc/{pid}/cgroup").read_text()
            except OSError:
                continue
            name, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
            told[int(pid)] = (int(rest[1]), int(rest[19]), name, self.group in group)
        own = {}
        for pid, (parent, start, name, is_in_group) in told.items():
            while parent > 1 and parent != self.server.process.pid and parent in told:
                parent = told[parent][0]
            if is_in_group or parent == self.server.process.pid:
                own[(pid, start)] = name
        return own

    def state(self):
        system = Client(self.server).system()
        data = Path(self.server.data) / "data"
        return {
            "processes": sorted(self.processes().values()),
            "groups": len(self.groups()),
            "descriptors": self.descriptors(),
            "files": self.files(data),
            "mounts": Path("/proc/self/mountinfo").read_text().count(str(data)),
            "sandboxes": [system["capacity"]["livingSandboxes"], system["capacity"]["memoryMb"], system["undying"]],
        }

    @staticmethod
    def files(data):
        """All that is in this folder, but for the copies of /etc; folders may go meanwhile."""
        return sorted(os.path.join(folder, name) for folder, folders, files in os.walk(data) for name in folders + files
                      if not Path(folder, name).is_relative_to(data / "etc"))

    def descriptors(self):
        """How many of each kind the server has."""
        kinds = collections.Counter()
        folder = f"/proc/{self.server.process.pid}/fd"
        for name in os.listdir(folder):
            try:
                kinds[re.sub(r"\d+", "N", os.readlink(f"{folder}/{name}"))] += 1
            except OSError:
                pass
        return dict(kinds)

    def at_rest(self, pooled=None):
        """The state once all that is made ahead is there and no program of a turn or run is: its process stays for a moment
        after its end was told. With so many waiting runners, and no other sandbox, if told."""
        is_v1 = "cgroup1" in Client(self.server).system()["enforcement"].values()
        wanted = MADE_AHEAD if is_v1 else 0
        looks = collections.deque(maxlen=5)

        def is_at_rest():
            looks.append(self.state())
            names = looks[-1]["processes"]
            runners = (looks[-1]["sandboxes"][0], names.count("guest"), names.count("node"))
            if pooled is not None and runners != (pooled, pooled, pooled):
                return False
            if not SERVING.issuperset(names):
                return False
            return names.count("atoll-zygote") == wanted and len(looks) == looks.maxlen and all(look == looks[0] for look in looks)

        await_true(is_at_rest, lambda: looks[-1])
        return looks[-1]

    def await_as_before(self, before, but=("files",)):
        """Waits until all is as it was, but for what is named."""
        now = {}

        def is_as_before():
            now.update({name: value for name, value in self.state().items() if name not in but})
            return all(now[name] == before[name] for name in now)

        def differs():
            told = {}
            for name in now:
                if isinstance(now[name], dict):
                    told[name] = {key: [before[name].get(key), now[name].get(key)] for key in {**before[name], **now[name]}
                                  if before[name].get(key) != now[name].get(key)}
                elif now[name] != before[name]:
                    told[name] = [before[name], now[name]]
            return told

        await_true(is_as_before, differs)


BOMBS = {
    # name: code, form, kinds that may end it
    "forks": ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", {"timeoutMs": 1500}, ["timeout", "memory"]),
    "memory": ("held = []\nwhile True: held.append(bytearray(1 << 22))", {}, ["memory"]),
    # 20 children, not theirs too: how long a million forks take is the machine's.
    "memory of many": ("for _ in range(20):\n    try:\n        if os.fork() == 0: break\n    except OSError: break\n"
                       "held = []\nwhile True: held.append(bytearray(1 << 22))", {"timeoutMs": 60000}, ["memory"]),
    "output": ("while True: send({'type': 'log', 'run': start['run'], 'nonce': start['nonce'], 'level': 'log', 'text': 'x' * 1000})",
               {"timeoutMs": 20000}, ["protocol"]),
    "output to stderr": ("while True: os.write(2, b'x' * 65536)", {"timeoutMs": 1000}, ["timeout"]),
    "disk": ("n = 0\nwhile True:\n    n += 1\n    try:\n        with open(f'/tmp/{n}', 'wb') as file: file.write(b'x' * (1 << 22))\n"
             "    except OSError: pass", {"timeoutMs": 1000}, ["timeout", "memory"]),
    "names": ("n = 0\nwhile True:\n    n += 1\n    try: open(f'/tmp/{n}', 'wb').close()\n    except OSError: pass",
              {"timeoutMs": 1000}, ["timeout", "memory"]),
    "sockets": ("import socket\nheld = []\nwhile True:\n    try: held.extend(socket.socketpair())\n    except OSError: pass",
                {"timeoutMs": 1000}, ["timeout", "memory", "crashed"]),
    "a loop": (ENDLESS, {"timeoutMs": 500}, ["timeout"]),
}
REAL_BOMBS = {
    "prints": ("while True: print('x' * 1000)", {"timeoutMs": 1000}, ["timeout"]),
    "a long result": ("return 'x' * (1 << 26)", {}, ["runtime", "protocol", "memory"]),
    "a deep result": ("a = []\nfor _ in range(100000): a = [a]\nreturn a", {}, ["runtime", "protocol"]),
    "a loop of awaits": ("import asyncio\nwhile True: await asyncio.sleep(0)", {"timeoutMs": 500}, ["timeout"]),
}


def bombs(lab):
    """Each bomb ends as it must, beside a conversation and a run that stay well."""
    server = lab.serve()
    client = Client(server)
    neighbour = client.call(201, "POST", "/v1/conversations", {"userId": "neighbour"})["id"]
    want(client.message(neighbour, "echo > n; echo fine") == "fine\n", "the neighbour is not well at all")
    left = Left(server)
    before = left.at_rest()
    run = client.begin("receive()", userId="neighbour", timeoutMs=60000)
    await_true(lambda: client.execution(run)["status"] == "running", "the neighbour runs")
    is_over, seen = threading.Event(), []

    def live_on():
        try:
            while not is_over.is_set() or len(seen) < 3:
                seen.append(client.message(neighbour, "echo fine $(wc -l < n); echo >> n"))
                seen.append(client.execute("return 6 * 7", executor="python", userId="neighbour")["result"])
        except (Wrong, OSError) as error:
            seen.append(error)

    beside = threading.Thread(target=live_on)
    beside.start()

    def explode(bomb):
        name, (code, form, kinds), executor = bomb
        result = client.execute(code, executor=executor, userId="bomber", maxOutputBytes=1 << 20, **form)
        kind = result.get("error", {}).get("kind")
        want(kind in kinds, name, "ended as", result.get("error"), "in place of", kinds)
        want(sum(len(log["text"]) for log in result["logs"]) <= 1 << 21, name, "logged too much")

    try:
        with ThreadPoolExecutor(4) as pool:
            every = [(*bomb, "container") for bomb in BOMBS.items()] + [(*bomb, "python") for bomb in REAL_BOMBS.items()]
            if not FULL:
                every = random.Random(int(os.environ.get("ATOLL_TEST_SEED", "1"))).sample(every, 5)
            list(pool.map(explode, every))
    finally:
        is_over.set()
        beside.join()
    wanted = [one for n in range(1, len(seen) // 2 + 1) for one in (f"fine {n}\n", 42)]
    want(seen == wanted, "the neighbours were not well:", [pair for pair in zip(seen, wanted) if pair[0] != pair[1]][:2], seen[-1])
    want(client.call(200, "GET", f"/v1/conversations/{neighbour}")["generation"] == 1, "the conversation was started anew")
    seen_of_run = client.execution(run)
    want(seen_of_run["status"] == "running" or seen_of_run["outcome"].get("error", {}).get("kind") == "timeout",
         "the run beside has ended:", seen_of_run)
    client.call(200, "DELETE", f"/v1/executions/{run}")
    left.await_as_before(before, {"files", "descriptors"})  # those of the neighbour come and go


LEAVERS = [
    ("out = 1", {}, None),
    ("import subprocess\nfor _ in range(5): subprocess.Popen(['sleep', '1000'], start_new_session=True)\nout = 1", {}, None),
    ("import os\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['sleep', '1000'])\nos._exit(3)", {}, "crashed"),
    ("for n in range(50): open(f'/tmp/{n}', 'w').write('x' * 10000)\nout = 1", {}, None),
    ("raise RuntimeError('no')", {}, "crashed"),
    (ENDLESS, {"timeoutMs": 100}, "timeout"),
    ("import socket, os\nheld = [socket.socketpair() for _ in range(20)]\nos.kill(os.getpid(), 9)", {}, "crashed"),
    ("send({'type': 'nonsense'})", {}, "protocol"),
]


def leftovers(lab):
    """Many runs of every kind leave nothing, with runners that are started ahead and without."""
    look_for_leftovers(lab, 1000 if FULL else 16, 0, ("files",))
    # Waiting runners open some of what they have later.
    look_for_leftovers(lab, 200 if FULL else 8, 2, ("files", "descriptors"))


def look_for_leftovers(lab, count, pooled, but):
    server = lab.serve("--executor-pool", f"container={pooled}")
    client = Client(server)
    for code, form, kind in LEAVERS:
        got = client.kind(code, **form)
        want(got == kind, got, "in place of", kind, "by", code)
    left = Left(server)
    before = left.at_rest(pooled)

    def run(number):
        code, form, kind = LEAVERS[number % len(LEAVERS)]
        if number % 10 == 9:  # the client leaves
            response = server.request("POST", "/v1/execute", {"code": ENDLESS, "executor": "python", "userId": f"u{number % 3}"},
                                      Accept="text/event-stream")
            response.readline()
            response.close()
            return
        want(client.kind(code, userId=f"u{number % 3}", **form) == kind, "run", number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(count)))
    left.await_as_before(before, but)
    want({Path(name).parent.name for name in left.state()["files"]}.isdisjoint({"workspaces", "trash", "unclaimed"}),
         "files of a sandbox are left")


def death(lab):
    """kill -9 of the server while programs run, start and wait: nothing is left, and the next server runs programs."""
    data = lab.folder("data")
    server = lab.serve(data=data)
    left = Left(server)
    at_start = left.at_rest()
    client = Client(server)
    for number in range(50 if FULL else 8):
        client.begin("import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\n" + ENDLESS,
                     userId=f"u{number // 6}")
    await_true(lambda: list(left.processes().values()).count("sleep") >= 4, "programs run")
    alive, groups = left.processes(), left.groups()
    server.kill()

    def still_there():
        return [name for (pid, start), name in alive.items() if start_of(pid) == start]

    await_true(lambda: not still_there(), still_there)
    again = lab.serve(data=data)
    client = Client(again)
    want(client.call(200, "GET", "/v1/executions")["executions"] == [], "the next server knows the runs")
    want(client.execute("out = 5")["result"] == 5, "the next server runs no programs")
    left = Left(again)
    await_true(lambda: not (groups & left.groups()), lambda: groups & left.groups())
    left.await_as_before(at_start)


def start_of(pid):
    """When a process that is no zombie was started; None without one."""
    try:
        rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if rest[0] == "Z" else int(rest[19])


def crowd(lab):
    """Many at once: each answer is that of its request; who is over the ceilings is told when to come again."""
    told = {"a full server": gather(lab.serve("--max-sandboxes", "4"), 10, 2, 4)}
    if FULL:
        told["the ceilings of users"] = gather(lab.serve(), 200, 5, 16)
        look_at_line(lab)
    print(f"# refused: {told}", flush=True)


def gather(server, count, users, places):
    """So many requests at once, each repeated until it has a place; how often each status refused one."""
    client = Client(server)
    refusals, most = collections.Counter(), collections.Counter()
    start = threading.Barrier(count + 1)

    def ask(number):
        form = {"code": f"return [{number}, await codemode.echo({number})]" if number % 10 == 9 else f"return [{number}, {number}]",
                "executor": "python", "userId": f"u{number % users}"}
        if number % 10 == 9:
            form["tools"] = [{"name": "echo"}]
        start.wait()
        while True:
            response = server.request("POST", "/v1/execute", form, seconds=300, Accept="text/event-stream")
            if response.status == 200:
                break
            problem = json.loads(response.read())
            allowed = {429: "too_many_executions", 503: "capacity"}
            want(allowed.get(response.status) == problem["code"], response.status, problem)
            seconds = response.getheader("Retry-After", "")
            want(seconds.isdigit() and 1 <= int(seconds) <= 60, "Retry-After:", seconds)
            refusals[response.status] += 1
            threading.Event().wait(int(seconds) if FULL else 1)
        result = None
        for line in response:
            event = json.loads(line[6:]) if line.startswith(b"data: ") else {"type": ""}
            if event["type"] == "start":
                id = event["data"]["executionId"]
            elif event["type"] == "tool_call":
                client.call(204, "POST", f"/v1/executions/{id}/calls/{event['data']['callId']}", {"result": event["data"]["args"][0]})
            elif event["type"] == "result":
                result = event["data"]
        want(result.get("result") == [number, number], number, "got", result)

    def watch():
        while not is_over.is_set():
            running = collections.Counter(one["userId"] for one in client.call(200, "GET", "/v1/executions?limit=500")["executions"]
                                          if one["status"] in ("starting", "running"))
            for user, number in running.items():
                most[user] = max(most[user], number)
            want(client.system()["capacity"]["livingSandboxes"] <= places, "more sandboxes than may be")

    is_over = threading.Event()
    with ThreadPoolExecutor(count + 1) as pool:
        watcher = pool.submit(watch)
        asked = [pool.submit(ask, number) for number in range(count)]
        start.wait()
        try:
            for one in asked:
                one.result(600)
        finally:
            is_over.set()
        watcher.result()
    want(max(most.values(), default=0) <= 4, "a user ran more than 4 at once:", most)
    return dict(refusals)


def look_at_line(lab):
    """36 of a user have a place, the next one has none; another user's does not wait for them."""
    quiet = lab.serve()
    client = Client(quiet)
    waits = "import asyncio\nawait asyncio.Event().wait()"
    ids = [client.begin(waits, executor="python", userId="many", timeoutMs=60000) for _ in range(36)]
    response = quiet.request("POST", "/v1/execute", {"code": waits, "executor": "python", "userId": "many"})
    want(response.status == 429 and response.getheader("Retry-After", "").isdigit(), response.status, response.getheaders())
    want(client.execute("return 1", executor="python", userId="other")["result"] == 1, "another user waits for them")
    for id in ids:
        client.call(200, "DELETE", f"/v1/executions/{id}")


def callers(lab):
    """Callers that never answer, answer twice, too much, or what is not theirs."""
    server = lab.serve()
    client = Client(server)
    code = "return [await codemode.one(), await codemode.two()]"
    tools = [{"name": "one"}, {"name": "two"}]

    def begin(**form):
        id = client.begin(code, executor="python", tools=tools, **form)
        await_true(lambda: client.execution(id)["openCalls"], "a call")
        return id

    # With more time where that is over before the program calls.
    for milliseconds in (1000, 8000, 60000):
        outcome = client.outcome(client.begin(code, executor="python", tools=tools, timeoutMs=milliseconds))
        if outcome["calls"]:
            break
    want(outcome["error"]["kind"] == "timeout" and outcome["calls"] and outcome["calls"][0]["status"] == "unanswered", outcome)

    def answer(id, call, body, status, code=None):
        problem = client.call(status, "POST", f"/v1/executions/{id}/calls/{call}", body)
        want(code is None or problem["code"] == code, problem)

    run, other = begin(timeoutMs=60000), begin(timeoutMs=60000)
    answer(run, "c1", {"result": 1}, 204)
    answer(run, "c1", {"result": 2}, 409, "call_answered")
    answer(run, "c1", {"error": {"message": "no"}}, 409, "call_answered")
    await_true(lambda: client.execution(run)["openCalls"] and client.execution(run)["openCalls"][0]["callId"] == "c2", "the next call")
    for call in ("c2", "c0", "c01", "c-1", "c99999999999999999999", "x", "%00"):
        answer(other, call, {"result": 1}, 404, "not_found")
    # A megabyte more than may be is refused; of 100 MB no more than that is read.
    answer(run, "c2", {"result": "x" * (1 << 20)}, 413)
    try:
        response = server.request("POST", f"/v1/executions/{run}/calls/c2", {"result": "x" * 100_000_000})
        want(response.status == 413, response.status, response.read(500))
    except (ConnectionError, BrokenPipeError):
        pass  # it was closed while we wrote
    rss = [int(line.split()[1]) for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    want(not FULL or rss[0] < 100_000, "the server took", rss, "kB")
    answer(run, "c2", {"result": "[" * 1000 + "]" * 1000}, 204)
    want(client.outcome(run)["result"] == [1, "[" * 1000 + "]" * 1000], client.outcome(run))
    answer(run, "c2", {"result": 1}, 409, "execution_ended")
    answer("a" * 20, "c1", {"result": 1}, 404, "not_found")
    client.call(200, "DELETE", f"/v1/executions/{other}")
    answer(other, "c1", {"result": 1}, 409, "execution_ended")


def engines(lab):
    """An engine that is missing, ends at once, says nonsense, or never is ready: told, and nothing is left."""
    empty = Client(lab.serve(executors=lab.folder("none")))
    for executor in ("isolated-vm", "deno", "container", "vm2", "auto"):
        problem = empty.execute("return 1", 409, executor=executor)
        want(problem["code"] == "executor_unavailable" and (executor == "auto" or executor in problem["detail"]), problem)
    want(empty.execute("return 1", executor="python")["result"] == 1, "python needs no package")
    told = {
        "exit 3": ("crashed", "status 3"),
        "kill -9 $$": ("crashed", "signal 9"),
        "echo this is no frame; sleep 1000": ("protocol", "too long"),
        "printf '\\0\\0\\0\\0'; sleep 1000": ("protocol", "empty"),
        "printf '\\0\\0\\0\\002{}'; sleep 1000": ("protocol", "type"),
    }
    hangs = "sleep 1000"
    folder = lab.folder("engine")
    make_engine(folder, "")
    server = lab.serve(executors=folder)
    client, left = Client(server), Left(server)
    before = left.at_rest()
    for line, wanted in {**told, hangs: ("crashed", "not ready within its time")}.items():
        write_engine(folder, "#!/bin/sh\n" + line + "\n")
        if line == hangs:
            id = client.begin("return 1")
            await_true(lambda: client.execution(id)["status"] == "running", "the engine is started")
            want(client.call(200, "DELETE", f"/v1/executions/{id}")["outcome"]["error"]["kind"] == "cancelled", "not cancelled")
        if line != hangs or FULL:
            # With little memory: nothing is learned of the engine, and the next run gets it.
            error = client.execute("return 1", memoryMb=64)["error"]
            want(error["kind"] == wanted[0] and wanted[1] in error["message"], line, error)
    write_engine(folder, "this is no program")
    want(client.kind("return 1") == "crashed", "no program")
    problem = client.execute("return 1", 409)
    want(problem["code"] == "executor_unavailable" and "its start" in problem["detail"], problem)
    left.await_as_before(before)


class Lab:
    def __init__(self, program):
        self.program, self.folders, self.servers = program, [], []
        self.broken = self.folder("broken")
        make_broken_engine(self.broken)

    def folder(self, name):
        made = tempfile.mkdtemp(prefix=f"atoll-hostile-{name}-")
        os.chmod(made, 0o755)
        self.folders.append(made)
        return Path(made)

    def serve(self, *arguments, data=None, executors=None):
        pool = [] if "--executor-pool" in arguments else ["--executor-pool", "auto=0"]
        self.servers.append(Server(self.program, executors or self.broken, *arguments, *pool, data=data and str(data)))
        return self.servers[-1]

    def end(self):
        for server in self.servers:
            server.close()
        self.servers.clear()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    lab = Lab(sys.argv[2])
    cases = [case for case in (bombs, leftovers, death, crowd, callers, engines) if len(sys.argv) < 4 or case.__name__ == sys.argv[3]]
    failed = 0
    for number, case in enumerate(cases, 1):
        began, why = time.monotonic(), ""
        try:
            case(lab)
        except (Wrong, OSError) as error:
            why = f"{type(error).__name__}: {error}"
            failed += 1
        lab.end()
        print(f"{'not ok' if why else 'ok'} {number} - {case.__name__}: {case.__doc__}", flush=True)
        print(f"#   {time.monotonic() - began:.1f} s {why[:2000]}", flush=True)
    for folder in lab.folders:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"1..{len(cases)}\n# pass {len(cases) - failed}\n# fail {failed}\n# skipped 0")
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
