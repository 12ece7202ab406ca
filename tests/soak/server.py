"""A real atolld with a data directory of its own, and requests to it."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

START_SECONDS = 20
STOP_SECONDS = 60
REQUEST_SECONDS = 60


class Server:
    def __init__(self, binaries):
        self.folder = Path(tempfile.mkdtemp(prefix="atoll-soak-"))
        os.chmod(self.folder, 0o755)
        self.data = self.folder / "data"
        self.key = os.urandom(16).hex()
        self.log = (self.folder / "log").open("w+")
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "ATOLL_API_KEY": self.key}
        arguments = ["--listen", "127.0.0.1:0", "--data-dir", str(self.data), "--disk-period", "1"]
        self.process = subprocess.Popen(
            [str(Path(binaries) / "atolld"), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.port = None
        late = threading.Timer(START_SECONDS, self.process.kill)
        late.start()
        for line in self.process.stdout:
            if "serves on http://127.0.0.1:" in line:
                self.port = int(line.rsplit(":", 1)[1])
            if "Ctrl-C ends the server" in line:
                break
        late.cancel()
        if self.port is None:
            self.log.seek(0)
            raise RuntimeError(f"atolld does not serve: {self.log.read()}")

    @property
    def pid(self):
        return self.process.pid

    def connect(self):
        return Client(self)

    def logged(self):
        return (self.folder / "log").read_text(errors="replace")

    def stop(self):
        """Ends it and removes its folder; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -signal.SIGKILL
        finally:
            self.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)


class Client:
    """A connection that is kept. Of one thread."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=REQUEST_SECONDS)
        self.headers = {"Authorization": f"Bearer {server.key}"}

    def call(self, method, path, body=None, accept="application/json"):
        """(status, body): JSON parsed, anything else as text. A body of bytes is sent as it is."""
        headers = {**self.headers, "Accept": accept}
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/octet-stream"
        elif body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        text = response.read().decode(errors="replace")
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, json.loads(text) if is_json and text else text

    def metrics(self):
        """The samples of /metrics by name and labels, as they stand there."""
        _, page = self.call("GET", "/metrics", accept="text/plain")
        lines = (line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in lines}
