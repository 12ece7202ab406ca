"""Runs the tests of one build folder through ctest and tells how many test cases passed, failed and were skipped.

Called by scripts/test: run_tests.py BUILD --build NAME --suites A,B --jobs N --tally FILE [--filter REGEX]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
from excuses import excused  # noqa: E402

SUITES = ("unit", "simulation", "isolation", "redteam", "integration", "browser", "clients", "engines")
# They own sandboxes, ports and deadlines: two at once on a small machine would measure each other.
SERIAL = ("isolation", "redteam", "integration", "browser", "clients", "engines")
# Their failures are of timing more often than of code: few that failed are run once more, alone. What passes then
# is told as unstable. Tests of the boundary are never given a second chance.
REPEATED = ("unit", "integration")
MOST_REPEATED = 3
# Those of which a whole program is run once more.
REPEATED_WHOLE = ("browser", "clients")
# For a whole program of tests; longer where ATOLL_TEST_FULL asks for all of them. It only ends what hangs.
TIMEOUT_SECONDS = 3600 if os.environ.get("ATOLL_TEST_FULL") == "1" else 1800

SUMMARY = re.compile(r"^test cases:(.*)$|^All tests passed \(.* in (\d+) test cases?\)", re.M)
SKIPPED = re.compile(r"SKIPPED:\n(?:explicitly with messages?:\n)?((?:[ \t]+\S.*\n)*)")
# The summary of `node --test --test-reporter=tap`.
TAP_COUNT = re.compile(r"^# (pass|fail|cancelled|skipped) (\d+)$", re.M)
# Where the console's report of a test case begins in a Catch2 program's output.
REPORT = re.compile(r"(?m)^(?=-{79}\n(?:.+\n)+?-{79}\n)")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def labels_of(test):
    return [label for p in test.get("properties", ()) if p["name"] == "LABELS" for label in p["value"]]


def suite_of(test, build):
    """The suite that a test belongs to, by the folder or name of its program, then by name."""
    program = os.path.relpath(test["command"][0], build) if test.get("command") else ""
    for text in [program, test["name"]]:
        for suite in SUITES:
            if re.search(rf"\b{suite}|[_-]{suite}", text):
                return suite
    return "other"


def catch_counts(output):
    """(passed, failed, skipped) test cases by the summary of a Catch2 program, or None."""
    found = list(SUMMARY.finditer(output))
    if not found:
        return None
    if found[-1][2]:
        return int(found[-1][2]), 0, 0
    count = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped)", found[-1][1])}
    return count.get("passed", 0), count.get("failed", 0), count.get("skipped", 0)


def tap_counts(output):
    """The same of a run of Node's tests."""
    count = {word: int(number) for word, number in TAP_COUNT.findall(output)}
    if "pass" not in count:
        return None
    return count["pass"], count.get("fail", 0) + count.get("cancelled", 0), count.get("skipped", 0)


def failed_cases(report):
    """Names of the test cases that failed by a Catch2 program's XML report; None where it has no end."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    results = ((case, case.find("OverallResult")) for case in root.iter("TestCase"))
    return [case.get("name") for case, result in results if result is None or result.get("success") != "true"]


def only(name):
    """The argument of a Catch2 program that selects this test case alone."""
    return re.sub(r'([\\,\["~]|^-)', r"\\\1", name)


def passes_alone(command, name, directory):
    """True if the test case of that name passes when its program runs it alone."""
    try:
        run = subprocess.run([command, only(name)], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, errors="replace", timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    print(run.stdout if run.returncode else f"passed alone: {name}", flush=True)
    counts = catch_counts(run.stdout)
    return run.returncode == 0 and counts is not None and counts[:2] == (1, 0)


class Case:
    """ctest's result of one test, which may be a program of many test cases."""

    def __init__(self, element):
        self.name = element.get("name")
        self.seconds = float(element.get("time") or 0)
        status = element.get("status")
        self.output = ANSI.sub("", element.findtext("system-out") or "")
        failure = element.find("failure")
        self.message = failure.get("message", "") if failure is not None else ""
        passed, failed, skipped = catch_counts(self.output) or tap_counts(self.output) or (None, None, None)
        if status == "run":
            self.counts = [1, 0, 0] if passed is None else [passed, failed, skipped]
        elif status == "notrun" and element.find("skipped") is not None and passed is None:
            self.counts = [0, 0, 1]
        elif skipped and not failed and self.ends_in_summary():
            self.counts = [passed, 0, skipped]
        else:
            self.counts = [passed or 0, max(failed or 0, 1), skipped or 0]

    def print_failure(self):
        """What it printed, without the reports of skipped test cases."""
        parts = REPORT.split(self.output)
        for part in parts:
            if "SKIPPED:" not in part or "FAILED:" in part or part is parts[-1]:
                print(part, end="")
        print(flush=True)

    def repeat(self, program, report):
        """Runs the test cases that failed once more; returns the names of those that pass then."""
        names = failed_cases(report)
        if not names or len(names) != self.counts[1] or len(names) > MOST_REPEATED or not self.ends_in_summary():
            return []
        unstable = [name for name in names if passes_alone(program, name, report.parent)]
        self.counts[0] += len(unstable)
        self.counts[1] -= len(unstable)
        return unstable

    def ends_in_summary(self):
        """False if something spoke after Catch2's last line: a crash at exit, a sanitizer's report."""
        return self.output.rstrip().rpartition("\n")[2].startswith("assertions:")

    def skip_reasons(self):
        reasons = [" ".join(text.split()) for text in SKIPPED.findall(self.output)]
        return (reasons + ["no reason given"] * self.counts[2])[: self.counts[2]]


def run_ctest(build, indices, jobs, name):
    """Runs the tests of these indices; returns their cases. A missing result file is a failure of its own."""
    report = build / "Testing" / f"atoll-{name}.xml"
    for old in [report, *report.parent.glob("catch-*.xml")]:
        old.unlink(missing_ok=True)
    chosen = ["-I", "0,0,0," + ",".join(map(str, indices))]
    # Its own words would call a program failed whose failed cases pass when they run once more.
    command = ["ctest", "--quiet", "--test-dir", str(build), *chosen, "-j", str(jobs),
               "--timeout", str(TIMEOUT_SECONDS), "--output-junit", str(report),
               "--test-output-size-passed", "4000000", "--test-output-size-failed", "4000000"]
    subprocess.run(command, stdin=subprocess.DEVNULL)
    if not report.exists():
        sys.exit(f"test: ctest wrote no results for {name}")
    return [Case(element) for element in ElementTree.parse(report).getroot().iter("testcase")]


def select(build, suites, pattern):
    """(suite -> indices of its tests, name -> program of each test); without those labelled `full` where these are not asked for."""
    listing = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True)
    if listing.returncode != 0:
        sys.exit(f"test: ctest cannot list the tests of {build}: {listing.stderr.strip()}")
    chosen, programs = {}, {}
    for index, test in enumerate(json.loads(listing.stdout)["tests"], 1):
        suite = suite_of(test, build)
        if os.environ.get("ATOLL_TEST_FULL") != "1" and "full" in labels_of(test):
            continue
        if suite in suites and (pattern is None or re.search(pattern, test["name"])):
            chosen.setdefault(suite, []).append(index)
            programs[test["name"]] = test["command"][0]
    return chosen, programs


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir", type=Path)
    parser.add_argument("--build", required=True)
    parser.add_argument("--suites", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tally", type=Path, required=True)
    parser.add_argument("--filter")
    return parser.parse_args()


def main():
    given = arguments()
    suites = given.suites.split(",")
    build = given.build_dir.resolve()
    chosen, programs = select(build, suites, given.filter)
    totals = [0, 0, 0]
    notes = []
    for suite in suites:
        if suite not in chosen:
            # Simulations may live in the unit tests' program; a filter may leave nothing of a suite.
            if suite not in ("simulation", "other") and given.filter is None:
                totals[1] += 1
                notes.append(f"FAILED {given.build}: the suite {suite} has no tests")
            continue
        print(f"== {given.build}: {suite}", flush=True)
        jobs = 1 if suite in SERIAL else given.jobs
        cases = run_ctest(build, chosen[suite], jobs, suite)
        if len(cases) != len(chosen[suite]):
            totals[1] += 1
            notes.append(f"FAILED {given.build} {suite}: {len(chosen[suite])} tests chosen, {len(cases)} reported")
        for at, case in enumerate(cases):
            if case.counts[1] and suite in REPEATED_WHOLE:
                case.print_failure()
                again = run_ctest(build, [chosen[suite][at]], 1, f"{suite}-again")
                if len(again) == 1 and again[0].name == case.name and not again[0].counts[1]:
                    notes.append(f"UNSTABLE (failed, then passed alone) {given.build} {suite}: {case.name}")
                    case = again[0]
            reasons = case.skip_reasons()
            refused = [reason for reason in reasons if not excused(reason, given.build)]
            report = build / "Testing" / f"catch-{case.name}.xml"
            if case.counts[1]:
                case.print_failure()
                names = failed_cases(report) or []
                unstable = case.repeat(programs[case.name], report) if suite in REPEATED else []
                notes += [f"UNSTABLE (failed, then passed alone) {given.build} {suite}: {name}" for name in unstable]
                notes += [f"FAILED {given.build} {suite}: {name}" for name in names if name not in unstable]
            passed, failed, skipped = case.counts
            print(f"{case.name}: {passed} passed, {failed} failed, {skipped} skipped, {case.seconds:.1f} s", flush=True)
            for total, number in enumerate((passed, failed + len(refused), skipped - len(refused))):
                totals[total] += number
            if failed:
                notes.append(f"FAILED {given.build} {suite}: {case.name} {case.message}")
            for reason in reasons:
                word = "SKIPPED WITHOUT AN EXCUSE" if reason in refused else "skipped"
                notes.append(f"{word} {given.build} {suite}: {case.name}: {reason}")
    if sum(totals) == 0:
        totals[1] = 1
        notes.append(f"FAILED {given.build}: no test was run")
    for note in notes:
        print(note)
    with given.tally.open("a") as tally:
        print(*totals, file=tally)
    sys.exit(1 if totals[1] else 0)


main()
