"""Starts the programs of tests, each in a process group of its own, and ends it whole when its time is over."""

import os
import re
import signal
import subprocess
import threading
import time

# For one process; longer where ATOLL_TEST_FULL asks for all tests. It only ends what hangs.
TIMEOUT_SECONDS = 3600 if os.environ.get("ATOLL_TEST_FULL") == "1" else 1800

# In the gate a case that takes longer hangs, however slow the machine is: the slowest needs 25 s on two cores.
CASE_SECONDS = TIMEOUT_SECONDS if os.environ.get("ATOLL_TEST_FULL") == "1" else int(
    os.environ.get("ATOLL_TEST_CASE_SECONDS", 300))

ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Ended:
    """How a process ended: its exit status (negative: the signal), what it wrote, the seconds it took."""

    def __init__(self, status, late_after, output, seconds):
        self.status = status
        self.late_after = late_after  # the seconds that it was given, where it had to be ended; else None
        self.output = output
        self.seconds = seconds

    @property
    def is_late(self):
        return self.late_after is not None

    def how(self):
        if self.is_late:
            return f"did not go on within {self.late_after} s"
        if self.status < 0:
            try:
                return f"was ended by {signal.Signals(-self.status).name}"
            except ValueError:
                return f"was ended by signal {-self.status}"
        return f"ended with exit status {self.status}"


class Processes:
    """The processes that run now, so that none outlives the runner."""

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

    def reap(self, process, report=None):
        """Waits for the process; the seconds that it was given, if it had to be ended, else None.

        `report`: a file that grows with each case.
        """
        late_after = None
        began = moved = time.monotonic()
        size = 0
        while late_after is None:
            try:
                process.wait(1)
                break
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if report is not None and (grown := size_of(report)) != size:
                size, moved = grown, now
            if now - began > TIMEOUT_SECONDS:
                late_after = TIMEOUT_SECONDS
            elif report is not None and now - moved > CASE_SECONDS:
                late_after = CASE_SECONDS
        if late_after is not None:
            self.end(process)
            process.wait()
        with self.lock:
            self.running.discard(process)
        return late_after

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


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def run(test, command, log, report=None):
    """Runs `command` as `test` (ctest_tests.Test) wants it, with its output in the file `log`.

    `report`: as in Processes.reap().
    """
    began = time.monotonic()
    with open(log, "wb") as output:
        try:
            process = PROCESSES.start(command, stdout=output, cwd=test.directory, env={**os.environ, **test.environment})
        except OSError as error:
            return Ended(127, None, f"{command[0]}: {error}\n", 0.0)
        late_after = PROCESSES.reap(process, report)
    text = ANSI.sub("", log.read_text(encoding="utf-8", errors="replace"))
    return Ended(process.returncode, late_after, text, time.monotonic() - began)
