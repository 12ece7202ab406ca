"""Starts the programs of tests, each in a process group of its own, and ends it whole when its time is over."""

import os
import re
import signal
import subprocess
import threading
import time

# For one process; longer where ATOLL_TEST_FULL asks for all tests. It only ends what hangs.
TIMEOUT_SECONDS = 3600 if os.environ.get("ATOLL_TEST_FULL") == "1" else 1800

ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Ended:
    """How a process ended: its exit status (negative: the signal), what it wrote, the seconds it took."""

    def __init__(self, status, is_late, output, seconds):
        self.status = status
        self.is_late = is_late
        self.output = output
        self.seconds = seconds

    def how(self):
        if self.is_late:
            return f"did not end within {TIMEOUT_SECONDS} s"
        if self.status < 0:
            try:
                return f"was ended by {signal.Signals(-self.status).name}"
            except ValueError:
                return f"was ended by signal {-self.status}"
        return f"ended with exit status {self.status}"


class Processes:
    """Those that run now, so that none outlives the runner."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.is_closed = False

    def start(self, command, **options):
        with self.lock:
            if self.is_closed:
                raise OSError("the runner ends")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                       start_new_session=True, **options)
            self.running.add(process)
            return process

    def reap(self, process, timeout):
        """Waits for the process; True if it had to be ended."""
        is_late = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            is_late = True
            self.end(process)
            process.wait()
        with self.lock:
            self.running.discard(process)
        return is_late

    @staticmethod
    def end(process):
        """With all of its group. Only of a process that was not waited for: its number is still its own."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        with self.lock:
            self.is_closed = True
            for process in self.running:
                if process.returncode is None:
                    self.end(process)


PROCESSES = Processes()


def run(test, command, log):
    """Runs `command` as `test` (ctest_tests.Test) wants it, with its output in the file `log`."""
    began = time.monotonic()
    with open(log, "wb") as output:
        try:
            process = PROCESSES.start(command, stdout=output, cwd=test.directory, env={**os.environ, **test.environment})
        except OSError as error:
            return Ended(127, False, f"{command[0]}: {error}\n", 0.0)
        is_late = PROCESSES.reap(process, TIMEOUT_SECONDS)
    text = ANSI.sub("", log.read_text(encoding="utf-8", errors="replace"))
    return Ended(process.returncode, is_late, text, time.monotonic() - began)
