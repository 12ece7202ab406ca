"""A program of Catch2: which cases it has, which of them are run, and what became of them by its XML report."""

import hashlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from ctest_tests import wants_full
from results import Result
from test_process import TIMEOUT_SECONDS, run

ALL_SKIPPED_STATUS = 4
# Where the console's report of a case begins.
REPORT = re.compile(r"(?m)^(?=-{79}\n(?:.+\n)+?-{79}\n)")
HEADER = re.compile(r"-{79}\n((?:.+\n)+?)-{79}\n")
# `--durations yes` also writes to the console.
DURATION = re.compile(r"^\d+\.\d+ s: .*\n", re.M)
LINES_OF_A_CRASH = 200


@dataclass(frozen=True)
class Case:
    name: str
    tags: frozenset

    @property
    def is_serial(self):
        return "serial" in self.tags


def list_cases(test):
    """All its cases in their order. ValueError if the program does not tell them."""
    # Named so that tests/support/gate_main.cpp chooses nothing.
    command = [test.command[0], "*", "--list-tests", "--reporter", "xml"]
    try:
        listing = subprocess.run(command, cwd=test.directory, stdin=subprocess.DEVNULL, capture_output=True,
                                 text=True, errors="replace", timeout=TIMEOUT_SECONDS)
        root = ElementTree.fromstring(listing.stdout)
    except (OSError, subprocess.TimeoutExpired, ElementTree.ParseError) as error:
        raise ValueError(f"it does not list its cases: {error}") from error
    tags = {}
    for element in root.iter("TestCase"):
        found = re.findall(r"\[([^\]]*)\]", element.findtext("Tags") or "")
        tags.setdefault(element.findtext("Name"), set()).update(tag.lower() for tag in found)
    if listing.returncode != 0 or not tags:
        raise ValueError("it does not list its cases")
    return [Case(name, frozenset(found)) for name, found in tags.items()]


def choose(cases, sampled_of, seed, pattern=None, least_drawn=0):
    """Chooses the cases to run: a sample, one in `sampled_of`, by the seed, with `least_drawn` tagged [drawn] at least.

    Hidden cases are left out, and cases tagged [full] unless all tests are asked for. With a pattern, or where all tests
    are asked for, there is no sample: all cases that the pattern finds are run, or all.
    """
    cases = [case for case in cases if not any(tag.startswith((".", "!benchmark")) for tag in case.tags)]
    if not wants_full():
        cases = [case for case in cases if "full" not in case.tags]
    if pattern is not None:
        return [case for case in cases if re.search(pattern, case.name)]
    if wants_full() or sampled_of == 1:
        return cases
    by_seed = sorted(cases, key=lambda case: hashlib.sha256(f"{seed} {case.name}".encode()).digest())
    drawn = set(by_seed[:-(-len(cases) // sampled_of)])
    drawn.update([case for case in by_seed if "drawn" in case.tags][:least_drawn])
    return [case for case in cases if case in drawn]


def specification(name):
    """The line of a file for `--input-file` that selects the case of this name alone."""
    return '"' + re.sub(r'([\\,"])', r"\\\1", name) + '"'


@dataclass
class Told:
    """A case in the XML report. Without `has_ended` it is the one that ran when the program died."""

    name: str
    has_ended: bool = False
    is_success: bool = False
    is_skipped: bool = False
    is_fatal: bool = False
    seconds: float = 0.0
    reasons: tuple = ()


def read_report(path):
    """(what it tells of each case, whether it is whole)"""
    told, open_cases, is_whole = [], [], False
    parser = ElementTree.XMLPullParser(("start", "end"))
    try:
        parser.feed(path.read_bytes())
        for event, element in parser.read_events():
            if element.tag == "TestCase" and event == "start":
                open_cases.append(Told(element.get("name")))
                told.append(open_cases[-1])
            elif element.tag == "TestCase":
                fill(open_cases.pop(), element)
                element.clear()
            elif element.tag == "Catch2TestRun" and event == "end":
                is_whole = True
    except (OSError, ElementTree.ParseError):
        pass
    return told, is_whole


def fill(told, element):
    result = element.find("OverallResult")
    if result is None:
        return
    told.has_ended = True
    told.is_success = result.get("success") == "true"
    told.is_skipped = int(result.get("skips") or 0) > 0
    told.is_fatal = next(element.iter("FatalErrorCondition"), None) is not None
    told.seconds = float(result.get("durationInSeconds") or 0)
    told.reasons = tuple(" ".join((skip.text or "").split()) or "no reason given" for skip in element.iter("Skip"))


def has_spoken_after_its_summary(output):
    """True if something followed Catch2's last line: a crash at exit, a sanitizer's report."""
    last = output.rstrip().rpartition("\n")[2]
    return not last.startswith(("assertions:", "All tests passed", "No tests ran"))


class Run:
    """The results of one process for the cases that it was to run.

    `results`: by case; `unreached`: cases that another process has to run, since this one died before them;
    `trouble`: what is wrong with the process though each case has a result, or None.
    """

    def __init__(self, test, cases, folder, number):
        self.test = test
        self.cases = cases
        self.results = {}
        self.unreached = []
        self.trouble = None
        if not cases:
            raise ValueError("without names the program would run all of its cases")
        base = folder / f"{test.name}-{number}"
        listing, report, log = (base.with_name(base.name + end) for end in (".cases", ".xml", ".log"))
        report.unlink(missing_ok=True)
        listing.write_text("".join(specification(case.name) + "\n" for case in cases), encoding="utf-8")
        self.ended = run(test, [test.command[0], "--input-file", str(listing), "--order", "decl", "--durations", "yes",
                                "--reporter", "console", "--reporter", f"xml::out={report}"], log, report)
        self.judge(*read_report(report))

    def judge(self, told, is_whole):
        for case in told:
            if case.has_ended:
                self.results[case.name] = self.result_of(case)
        missing = [case for case in self.cases if case.name not in self.results]
        status, how = self.ended.status, self.ended.how()
        if self.ended.is_late or status < 0 or not is_whole:
            self.find_culprit(told, missing, how)
            return
        for case in missing:
            self.fail_case(case.name, "it was not run")
        has_failed = any(result.failed for result in self.results.values())
        if status != 0 and has_failed and has_spoken_after_its_summary(self.ended.output):
            self.trouble = f"it {how}, and spoke after its summary"
        elif not has_failed and status not in (0, ALL_SKIPPED_STATUS):
            self.trouble = f"it {how}, though no case failed"
        if self.trouble:
            for result in self.results.values():
                result.may_repeat = False

    @staticmethod
    def result_of(case):
        result = Result(case.name, seconds=case.seconds)
        if not case.is_success:
            result.failed = 1
        elif case.is_skipped:
            result.skipped, result.reasons = 1, list(case.reasons)
        else:
            result.passed = 1
        return result

    def fail_case(self, name, why, seconds=0.0):
        self.results[name] = Result(name, failed=1, seconds=seconds, why=why, may_repeat=False)

    def find_culprit(self, told, missing, how):
        """The case that ran when the program died; the ones behind it are unreached."""
        names = {case.name for case in self.cases}
        running = [case.name for case in told if (case.is_fatal or not case.has_ended) and case.name in names]
        if not told and missing:
            for case in missing:
                self.fail_case(case.name, f"its program {how} before its first case")
        elif running or missing:
            culprit = running[-1] if running else missing[0].name
            before = sum(result.seconds for result in self.results.values() if result.name != culprit)
            self.fail_case(culprit, f"its program {how} in it", max(0.0, self.ended.seconds - before))
            self.unreached = [case for case in missing if case.name != culprit]
        else:
            self.trouble = f"it {how} after its cases"

    @property
    def has_failed(self):
        return bool(self.trouble) or any(result.failed for result in self.results.values())

    def failure_text(self):
        """The console's words on what failed, without the cases that passed or were skipped."""
        failed = {" ".join(result.name.split()) for result in self.results.values() if result.failed}
        parts = REPORT.split(DURATION.sub("", self.ended.output))
        said = [part for part in parts if "FAILED:" in part or is_of(part, failed)]
        died = self.trouble or any(not result.may_repeat for result in self.results.values() if result.failed)
        if died and parts[-1] not in said:
            said.append("".join(parts[-1].splitlines(True)[-LINES_OF_A_CRASH:]))
        return "".join(said)


def is_of(part, names):
    """True if the console's report is of one of these cases. Long names are wrapped in it."""
    header = HEADER.match(part)
    title = " ".join(header[1].split()) if header else ""
    return any(title == name or title.startswith(name + " ") for name in names)
