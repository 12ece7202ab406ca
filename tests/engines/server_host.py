"""The same programs through the server: each run has a sandbox, and this is the caller that answers its tools."""

import atexit
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from engine_host import SECONDS, Broken, answer

SECONDS_TO_START = SECONDS


class Server:
    """An atolld of its own, with the engines of `executors`. It removes its folder at its end, unless `data` names one."""

    def __init__(self, program, executors, *arguments, data=None):
        self.owns_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="atoll-engines-data-")
        self.key = "engines-" + os.urandom(16).hex()
        environment = {**os.environ, "ATOLL_API_KEY": self.key, "ATOLL_CANARY": "atoll-canary"}
        atexit.register(self.close)
        self.log = open(Path(self.data) / "server.log", "wb")
        self.process = subprocess.Popen([program, "--listen", "127.0.0.1:0", "--data-dir", self.data + "/data",
                                         "--executors", str(executors), *arguments], stdout=self.log, stderr=self.log, env=environment)
        end = time.monotonic() + SECONDS_TO_START
        while not (self.find_port() and self.is_ready()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit("the server does not start: " + (Path(self.data) / "server.log").read_text()[-2000:])

    def find_port(self):
        """Finds its port in its log; None if it has not told it yet."""
        told = re.search(r"serves on http://127\.0\.0\.1:(\d+)", (Path(self.data) / "server.log").read_text(errors="replace"))
        self.port = int(told[1]) if told else None
        return told

    def is_ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def request(self, method, path, body=None, seconds=120, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Authorization": "Bearer " + self.key, "Content-Type": "application/json", **headers})
        return connection.getresponse()

    def close(self):
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.log.close()
        if self.owns_data:
            shutil.rmtree(self.data, ignore_errors=True)

    def kill(self):
        self.process.kill()
        self.process.wait(60)
        self.log.close()


class ServerRun:
    """A program that runs through the server: `logs`, `calls` and `result`, as engine_host.Run has them."""

    def __init__(self, engine, server, program, seconds=SECONDS):
        self.logs, self.calls, self.result, self.timed_out = [], [], None, False
        tools = program.get("tools", {})
        limits = program.get("limits", {})
        form = {"code": program["code"], "executor": engine["name"], "timeoutMs": 1000 * min(seconds, 60), "memoryMb": program.get("memoryMb", 256),
                "tools": [{"name": name} for name in tools]}
        if program.get("language"):
            form["language"] = program["language"]
        if "maxCalls" in limits:
            form["maxCalls"] = limits["maxCalls"]
        if "maxLogBytes" in limits:
            form["maxOutputBytes"] = limits["maxLogBytes"]
        response = server.request("POST", "/v1/execute", form, Accept="text/event-stream")
        if response.status != 200:
            raise Broken(f"{response.status} {response.read(500)}")
        for event in self.events(response):
            self.take(server, event, tools)
        if self.result is None:
            raise Broken("the stream ended without a result")
        kind = self.result.get("error", {}).get("kind")
        if kind in ("protocol", "crashed"):
            raise Broken(f"{kind}: {self.result['error']['message']}: the runner ended without a result")
        self.timed_out = kind == "timeout"

    @staticmethod
    def events(response):
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def take(self, server, event, tools):
        data = event.get("data", {})
        if event["type"] == "start":
            self.id = data["executionId"]
        elif event["type"] == "log":
            self.logs.append(data)
        elif event["type"] == "tool_call":
            self.calls.append([data["name"], *data["args"]])
            tool = tools[data["name"]]
            if not tool.get("never"):
                answered = server.request("POST", f"/v1/executions/{self.id}/calls/{data['callId']}", answer(tool, data["args"]))
                # It may have ended meanwhile.
                if answered.status not in (204, 409):
                    raise Broken(f"an answer was refused: {answered.read(500)}")
        elif event["type"] == "result":
            self.result = {"value": data["result"]} if "result" in data else {}
            if "error" in data:
                self.result["error"] = data["error"]
