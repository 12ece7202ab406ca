"""Runs the tests of one build folder and tells how many cases passed, failed and were skipped.

Called by scripts/test: run_tests.py BUILD --build NAME --suites A,B --jobs N --tally FILE [--filter REGEX] [--slow]
"""

import argparse
import math
import os
import re
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path

sys.dont_write_bytecode = True
from catch_program import Case, Run, choose, list_cases  # noqa: E402
from ctest_tests import tests_of, wants_full  # noqa: E402
from results import Report, Result  # noqa: E402
from test_process import PROCESSES  # noqa: E402
from whole_program import run_whole  # noqa: E402

# Suites of which several processes run at once: how many (None: as many as jobs), and the fewest and the most cases
# that one of them takes. The other suites measure time or own the machine.
SHARDS = {
    "unit": (None, 1, 400),
    "integration": (4, 1, 6),
    # Each process starts servers that all its cases share.
    "isolation": (2, 8, 60),
}
# Suites that run beside one another: each alone would leave a processor idle. Their [serial] cases, and the programs
# that run beside no other, come after all of these.
TOGETHER = (("unit", "simulation"), ("integration", "browser", "clients", "engines"))
# In these suites a case that failed is run once more, alone: servers and sandboxes that it waits for may be late on a
# busy machine. A case that passes then is told as flaky.
REPEATED = ("integration", "isolation", "redteam")
# In these suites a whole program that failed is run once more.
REPEATED_WHOLE = ("browser", "clients", "engines")
# More failures in a suite are no accident.
MOST_REPEATED = 8


class Program:
    """A test of ctest in a run: the cases that are still to be dealt out, and all results so far."""

    def __init__(self, test):
        self.test = test
        self.waiting = deque()
        self.serial = []
        self.results = []
        self.began = None
        self.ended = None
        self.processes = 0

    @property
    def seconds(self):
        return self.ended - self.began if self.began is not None else 0.0


class SuiteRun:
    """The programs of one suite, run by a few threads: whole ones first, then the cases in small portions; alone those
    that have to be."""

    def __init__(self, report, suite, tests, given, folder):
        self.report = report
        self.suite = suite
        self.folder = folder
        width, self.least, self.most = SHARDS.get(suite, (1, 1, math.inf))
        self.width = width or max(given.jobs, 1)
        self.lock = threading.Lock()
        self.trouble = None
        self.samples = []
        self.programs = [Program(test) for test in tests]
        self.whole = deque()
        self.alone = deque()
        for program in self.programs:
            self.prepare(program, given)

    def prepare(self, program, given):
        test = program.test
        is_named = given.filter is None or re.search(given.filter, test.name)
        if not test.command or not os.path.exists(test.command[0]):
            if is_named:
                program.results.append(Result(test.name, failed=1, why="its program is not there"))
        elif test.is_catch:
            try:
                cases = list_cases(test)
            except ValueError as error:
                program.results.append(Result(test.name, failed=1, why=str(error)))
                return
            chosen = choose(cases, test.sampled_of, given.seed, None if is_named else given.filter, test.least_drawn)
            if is_named and test.sampled_of > 1 and not wants_full():
                self.samples.append(f"{test.name}: one case in {test.sampled_of}, {len(chosen)} of {len(cases)}, "
                                    f"ATOLL_TEST_SEED={given.seed}")
            program.waiting.extend(case for case in chosen if not case.is_serial)
            program.serial = [case for case in chosen if case.is_serial]
        elif is_named:
            (self.alone if test.is_alone else self.whole).append(program)

    def announce(self):
        print("\n".join([f"== {self.report.build}: {self.suite}", *self.samples]), flush=True)

    def finish(self):
        """Runs what must be alone, and what gets a second chance; tells the results."""
        for program in self.programs:
            program.waiting.extend(program.serial)
        self.whole.extend(self.alone)
        in_threads([self], 1)
        self.repeat()
        for program in self.programs:
            if program.results:
                self.report.add_program(self.suite, program.test.name, program.results, program.seconds)

    @property
    def is_empty(self):
        return not (self.whole or self.alone or any(
            program.waiting or program.serial or program.results for program in self.programs))

    def work(self, width):
        try:
            while not PROCESSES.is_closed and (taken := self.take(width)):
                program, cases, number = taken
                if cases is None:
                    self.run_whole(program, number)
                else:
                    self.run_cases(program, cases, number)
        except BaseException as error:  # noqa: BLE001: told by the thread that waits
            self.trouble = error

    def take(self, width):
        """The next portion of work, smaller towards the end: (program, cases or None, number of the process)."""
        with self.lock:
            if self.whole:
                program, cases = self.whole.popleft(), None
            else:
                program = next((program for program in self.programs if program.waiting), None)
                if program is None:
                    return None
                many = len(program.waiting)
                share = many if width == 1 else min(self.most, max(self.least, -(-many // (2 * width))))
                cases = [program.waiting.popleft() for _ in range(min(many, share))]
            program.began = program.began or time.monotonic()
            program.processes += 1
            return program, cases, program.processes

    def run_cases(self, program, cases, number):
        run = Run(program.test, cases, self.folder, number)
        with self.lock:
            # The ones behind a crash, in a fresh process.
            program.waiting.extendleft(reversed(run.unreached))
            program.results += run.results.values()
            if run.trouble:
                program.results.append(Result(program.test.name, failed=1, why=run.trouble, may_repeat=False))
            program.ended = time.monotonic()
            if run.has_failed:
                print(run.failure_text(), flush=True)

    def run_whole(self, program, number):
        result, output = run_whole(program.test, self.folder, number)
        with self.lock:
            program.results.append(result)
            program.ended = time.monotonic()
            if result.failed:
                print(output, flush=True)

    def repeat(self):
        """Runs what failed once more, alone, where the suite gives a second chance."""
        failed = [(program, result) for program in self.programs for result in program.results
                  if result.failed and result.may_repeat and program.processes]
        if len(failed) > MOST_REPEATED:
            return
        for program, result in failed:
            program.processes += 1
            if program.test.is_catch and self.suite in REPEATED:
                again = self.case_again(program, result)
            elif not program.test.is_catch and self.suite in REPEATED_WHOLE:
                again, output = run_whole(program.test, self.folder, program.processes)
                if again.failed:
                    print(output, flush=True)
            else:
                continue
            if again and again.passed and not again.failed:
                program.results[program.results.index(result)] = again
                self.report.add_flaky(self.suite, result.name)
            program.ended = time.monotonic()

    def case_again(self, program, result):
        run = Run(program.test, [Case(result.name, frozenset())], self.folder, program.processes)
        if run.has_failed:
            print(run.failure_text(), flush=True)
            return None
        return run.results.get(result.name)


def in_threads(runs, width=None):
    """Lets each of these suites work off what it has, with as many processes as it runs at once, or `width`."""
    threads = [threading.Thread(target=run.work, args=(width or run.width,), daemon=True)
               for run in runs for _ in range(width or run.width)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in runs:
        if run.trouble:
            raise run.trouble


def groups_of(suites):
    """The suites in the order in which they run: those that run beside one another are one group."""
    groups = {}
    for suite in suites:
        groups.setdefault(next((group for group in TOGETHER if suite in group), suite), []).append(suite)
    return groups.values()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir", type=Path)
    parser.add_argument("--build", required=True)
    parser.add_argument("--suites", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tally", type=Path, required=True)
    parser.add_argument("--filter")
    parser.add_argument("--slow", action="store_true")
    given = parser.parse_args()
    # Another sample each day, unless a seed is given.
    given.seed = os.environ.get("ATOLL_TEST_SEED") or str(int(time.time()) // 86400)
    return given


def main():
    given = arguments()
    build = given.build_dir.resolve()
    folder = build / "Testing" / "cases"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    report = Report(given.build)
    tests = tests_of(build)
    for group in groups_of(given.suites.split(",")):
        runs = []
        for suite in group:
            run = SuiteRun(report, suite, [test for test in tests if test.suite == suite], given, folder)
            if not run.is_empty:
                runs.append(run)
            elif suite not in ("simulation", "other") and given.filter is None:
                # Simulations may live in the unit tests' program; a filter may leave nothing of a suite.
                report.fail(f"the suite {suite} has no tests")
        for run in runs:
            run.announce()
        in_threads(runs)
        for run in runs:
            run.finish()
    return report.close(given.tally, given.slow)


def stop(number, _):
    sys.exit(128 + number)


if __name__ == "__main__":
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, stop)
    try:
        status = main()
    finally:
        PROCESSES.close()
    sys.exit(status)
