"""The results of tests: counts, the lines that name what failed or was skipped, and the file that sums up several runs.

The tally has a line `PASSED FAILED SKIPPED` of each run of a build and a line `flaky NAME` of each flaky test.
"""

from collections import Counter
from dataclasses import dataclass, field

from excuses import excused

# A test that fails and passes when it is repeated is a defect of its own: few are told, more fail the run.
MOST_FLAKY = 3
SLOWEST = 20


@dataclass
class Result:
    """The result of a case, or of a whole program with the counts of its cases."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    reasons: list = field(default_factory=list)  # of what was skipped
    why: str = ""  # of a failure that is more than a failed check
    may_repeat: bool = True


class Report:
    """All results of one build."""

    def __init__(self, build):
        self.build = build
        self.totals = [0, 0, 0]
        self.notes = []
        self.flaky = []
        self.times = []

    def where(self, suite):
        return suite if self.build == "release" else f"{self.build} {suite}"

    def fail(self, words):
        """A failure that belongs to no test."""
        self.totals[1] += 1
        self.notes.append(f"FAILED {self.build}: {words}")

    def add_flaky(self, suite, name):
        self.flaky.append(name)
        self.notes.append(f"FLAKY {self.where(suite)}: {name}")

    def add_program(self, suite, program, results, seconds):
        """Counts the results of one program and prints its line."""
        where = self.where(suite)
        counts = [0, 0, 0]
        skips, refused = Counter(), {}
        for result in results:
            self.times.append((result.seconds, suite, result.name))
            bad = [reason for reason in result.reasons if not excused(reason, self.build)]
            moved = min(result.skipped, len(bad))
            for at, number in enumerate((result.passed, result.failed + moved, result.skipped - moved)):
                counts[at] += number
            if result.failed:
                self.notes.append(f"FAILED {where}: {result.name}" + (f" ({result.why})" if result.why else ""))
            if result.skipped:
                for reason in bad:
                    refused.setdefault(reason, []).append(result.name)
                skips.update(reason for reason in result.reasons if reason not in bad)
        for reason, names in refused.items():
            names = sorted(names)
            many = f" and {len(names) - 1} more" if len(names) > 1 else ""
            self.notes.append(f"FAILED {where}: {names[0]}{many} (skipped without an excuse: {reason})")
        for reason, number in skips.items():
            self.notes.append(f"skipped {where}: {reason}" + (f" ({number} times)" if number > 1 else ""))
        self.totals = [total + number for total, number in zip(self.totals, counts)]
        passed, failed, skipped = counts
        print(f"{program}: {passed} passed, {failed} failed, {skipped} skipped, {seconds:.1f} s", flush=True)

    def print_slowest(self):
        print(f"== {self.build}: the slowest")
        for seconds, suite, name in sorted(self.times, key=lambda entry: -entry[0])[:SLOWEST]:
            print(f"{seconds:7.1f} s  {suite}: {name}")

    def close(self, tally, shows_slowest):
        """Prints what there is to say, adds to the tally; the exit status."""
        before = tally.read_text().splitlines() if tally.exists() else []
        flaky = sum(line.startswith("flaky ") for line in before) + len(self.flaky)
        if self.flaky and flaky > MOST_FLAKY:
            self.fail(f"{flaky} flaky tests, at most {MOST_FLAKY} are let through")
        if sum(self.totals) == 0:
            self.fail("no test was run")
        if shows_slowest:
            self.print_slowest()
        for note in self.notes:
            print(note)
        with tally.open("a") as file:
            for name in self.flaky:
                print("flaky", name, file=file)
            print(*self.totals, file=file)
        return 1 if self.totals[1] else 0
