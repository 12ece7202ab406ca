"""A test that is a program of its own: its exit status, or the counts of Node's tests, say what became of it."""

import re

from results import Result
from test_process import run

# The summary of `node --test --test-reporter=tap`.
TAP_COUNT = re.compile(r"^# (pass|fail|cancelled|skipped) (\d+)$", re.M)
TAP_SKIP = re.compile(r"^\s*ok \d+ .*# SKIP *(.*)$", re.M)


def tap_counts(output):
    """(passed, failed, skipped) of a run of Node's tests, or None."""
    count = {word: int(number) for word, number in TAP_COUNT.findall(output)}
    if "pass" not in count:
        return None
    return count["pass"], count.get("fail", 0) + count.get("cancelled", 0), count.get("skipped", 0)


def run_whole(test, folder, number):
    """(its result, what it wrote)"""
    ended = run(test, test.command, folder / f"{test.name}-{number}.log")
    result = Result(test.name, seconds=ended.seconds)
    counts = tap_counts(ended.output)
    if not ended.is_late and test.skip_status is not None and ended.status == int(test.skip_status):
        result.skipped = 1
        result.reasons = [ended.output.rstrip().rpartition("\n")[2].strip() or "no reason given"]
        return result, ended.output
    if counts:
        result.passed, result.failed, result.skipped = counts
        reasons = [reason.strip() or "no reason given" for reason in TAP_SKIP.findall(ended.output)]
        result.reasons = (reasons + ["no reason given"] * result.skipped)[: result.skipped]
    elif ended.status == 0:
        result.passed = 1
    if ended.is_late or ended.status != 0:
        result.failed = max(result.failed, 1)
        result.why = ended.how()
        # A program that crashed or hung has one chance.
        result.may_repeat = not ended.is_late and ended.status > 0
    return result, ended.output
