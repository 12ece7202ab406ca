"""A real atolld that can be killed and started again, and a proxy whose connections can be cut."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "clients" / "python"))

START_SECONDS = 30
STOP_SECONDS = 60
# No step of a test takes longer.
DEADLINE_SECONDS = 60


class Server:
    """`flags` are added to the command line, `variables` to the environment. The port stays the same over restarts."""

    def __init__(self, *flags, variables=None):
        self.folder = Path(tempfile.mkdtemp(prefix="atoll-python-"))
        os.chmod(self.folder, 0o755)
        self.key = os.urandom(16).hex()
        self.socket_path = str(self.folder / "socket")
        self.port = 0
        self._flags = flags
        self._variables = variables or {}
        self._log = (self.folder / "log").open("w+")
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self):
        arguments = ["--listen", f"127.0.0.1:{self.port}", "--listen", f"unix:{self.socket_path}"]
        arguments += ["--data-dir", str(self.folder / "data"), *self._flags]
        self.process = subprocess.Popen(
            [str(Path(os.environ["ATOLL_BIN"]) / "atolld"), *arguments],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "ATOLL_API_KEY": self.key, **self._variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        late = threading.Timer(START_SECONDS, self.process.kill)
        late.start()
        try:
            for line in self.process.stdout:
                found = re.search(r"https?://127\.0\.0\.1:(\d+)\s*$", line)
                if found and "serves on" in line:
                    self.port = int(found[1])
                if "Ctrl-C ends the server" in line:
                    return
        finally:
            late.cancel()
        raise RuntimeError(f"atolld does not serve: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def unix_url(self):
        return f"unix:{self.socket_path}"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)
        self.process.stdout.close()

    def terminate(self):
        """Ends it as an operator does."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_SECONDS)
        self.process.stdout.close()

    def restart(self):
        self._start()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_certificate(folder):
    """(certificate, key) for 127.0.0.1, as files."""
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=atoll client tests", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


class Proxy:
    """Passes connections on to a port. `cut()` resets those that are open; `cut_after` bytes of an answer each does itself."""

    def __init__(self, port):
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = []
        self._all = []
        self._lock = threading.Lock()
        self.cut_after = None
        self.accepted = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._all.append(client)
            try:
                server = socket.create_connection(self._target, 10)
            except OSError:
                client.shutdown(socket.SHUT_RDWR)
                continue
            server.settimeout(None)
            self._all.append(server)
            with self._lock:
                self.accepted += 1
                self._open.append((client, server))
            for source, sink, is_answer in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=(source, sink, is_answer), daemon=True).start()

    def _pass(self, source, sink, is_answer):
        passed = 0
        try:
            while piece := source.recv(65536):
                if is_answer and self.cut_after is not None:
                    piece = piece[: self.cut_after - passed]
                sink.sendall(piece)
                passed += len(piece)
                if is_answer and passed == self.cut_after:
                    break
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self._lock:
            pairs, self._open = self._open, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        # Wakes accept(), which close() alone does not.
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self._acceptor.join(DEADLINE_SECONDS)
        self.cut()
        for end in self._all:
            end.close()


class InThread(threading.Thread):
    """Runs a function beside the test; `result()` waits for it, with the deadline of a test."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self._function = function
        self._value = None
        self._error = None
        self.start()

    def run(self):
        try:
            self._value = self._function()
        except BaseException as error:  # told by result()
            self._error = error

    def result(self):
        self.join(DEADLINE_SECONDS)
        if self.is_alive():
            raise TimeoutError("it did not end in time")
        if self._error is not None:
            raise self._error
        return self._value
