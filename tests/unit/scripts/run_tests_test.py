#!/usr/bin/env -S python3 -B
"""Usage: run_tests_test.py

What scripts/lib/run_tests.py makes of cases and of whole programs, with programs that stand in for Catch2's and Node's.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# Its file `plan` has for each case [tags, what happens each time that it is run], or that for each program; what it
# does is in `events`.
CATCH_PROGRAM = r"""#!/usr/bin/env -S python3 -ISB
import json, os, re, signal, sys
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

here = Path(__file__).resolve().parent
plan = json.loads((here / "plan").read_text())
plan = plan.get(Path(__file__).name, plan)
if "--list-tests" in sys.argv:
    assert sys.argv[1] == "*"
    print("<MatchingTests>")
    for name, (tags, _) in plan.items():
        print(f"<TestCase><Name>{escape(name)}</Name><Tags>{escape(tags)}</Tags></TestCase>")
    print("</MatchingTests>")
    sys.exit(0)

lines = Path(sys.argv[sys.argv.index("--input-file") + 1]).read_text().splitlines()
asked = [re.sub(r"\\(.)", r"\1", line[1:-1]) for line in lines]
report = open(next(word[9:] for word in sys.argv if word.startswith("xml::out=")), "w")
log = os.open(here / "events", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
signal.alarm(60)
rule = "-" * 79
count = {"pass": 0, "fail": 0, "skip": 0}

def tell(word, name):
    os.write(log, f"{word} {name}\n".encode())

print("Randomness seeded to: 1")
report.write("<Catch2TestRun>")
for name in plan:
    if name not in asked:
        continue
    done = (here / "events").read_text().splitlines().count(f"begin {name}")
    steps = plan[name][1]
    step, _, reason = steps[min(done, len(steps) - 1)].partition(":")
    tell("begin", name)
    report.write(f"<TestCase name={quoteattr(name)}>")
    report.flush()
    if step == "meet":  # waits for the other case that opens the other end
        open(here / "fifo", reason).close()
        step = "pass"
    if step == "hang":
        signal.pause()
    if step == "vanish":
        os._exit(1)
    if step == "signal":
        report.write('<FatalErrorCondition/><OverallResult success="false" durationInSeconds="0.5"/></TestCase></Catch2TestRun>')
        report.flush()
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    seconds = 0.1
    if step == "slow":
        seconds, step = float(reason), "pass"
    if step in ("fail", "skip"):
        print(f"{rule}\n{name}\n{rule}\nfile.cpp:1\n{'FAILED:' if step == 'fail' else 'SKIPPED:'}\n  said by {name}\n")
    if step == "skip":
        report.write(f"<Skip>\n  {escape(reason)}\n</Skip>")
    report.write(f'<OverallResult success="{str(step != "fail").lower()}" skips="{int(step == "skip")}" '
                 f'durationInSeconds="{seconds}"/></TestCase>')
    print(f"{seconds} s: {name}")
    count[step] += 1
    tell("end", name)
report.write("</Catch2TestRun>")
report.close()
print(f"test cases: {sum(count.values())} | ...\nassertions: {sum(count.values())} | ...", flush=True)
if (here / "sanitizer").exists():
    print("a sanitizer speaks", flush=True)
    os._exit(1)
sys.exit(1 if count["fail"] else 4 if not count["pass"] else 0)
"""

# Fails as often as its file `plan` has letters.
NODE_PROGRAM = r"""#!/usr/bin/env python3
import sys
from pathlib import Path
plan = Path(__file__).resolve().parent / "plan"
left = plan.read_text()
plan.write_text(left[1:])
print(f"# pass {2 - bool(left)}\n# fail {int(bool(left))}\n# cancelled 0\n# skipped 0")
sys.exit(bool(left))
"""


class Ran:
    """A run of run_tests.py over a build folder with one test of each suite (`A,B`)."""

    def __init__(self, suite, program, plan, properties="", options=(), variables=None, tally="", sanitizer=False):
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder)
            listed = ""
            for one in suite.split(","):
                name = one if program is NODE_PROGRAM else f"{one}_tests"
                (build / name).write_text(program)
                (build / name).chmod(0o755)
                listed += f'add_test({one} "{build / name}")\n'
                listed += f'set_tests_properties({one} PROPERTIES {properties or "LABELS none"})\n'
            (build / "CTestTestfile.cmake").write_text(listed)
            (build / "plan").write_text(plan if isinstance(plan, str) else json.dumps(plan))
            (build / "tally").write_text(tally)
            (build / "events").touch()
            if sanitizer:
                (build / "sanitizer").touch()
            os.mkfifo(build / "fifo")
            environment = {key: value for key, value in os.environ.items() if not key.startswith("ATOLL_TEST_")}
            command = [sys.executable, "-B", ROOT / "scripts/lib/run_tests.py", build, "--build", "release", "--suites",
                       suite, "--jobs", "2", "--tally", build / "tally", *options]
            run = subprocess.run(command, capture_output=True, text=True, env={**environment, **(variables or {})})
            self.status, self.output = run.returncode, run.stdout + run.stderr
            self.tally = (build / "tally").read_text().splitlines()
            self.events = (build / "events").read_text().splitlines()

    @property
    def begun(self):
        return [event[6:] for event in self.events if event.startswith("begin ")]

    def lines(self, start):
        return [line for line in self.output.splitlines() if line.startswith(start)]


def cases(suite, plan, **options):
    return Ran(suite, CATCH_PROGRAM, plan, "LABELS " + options.pop("labels", "catch"), **options)


class WholePrograms(unittest.TestCase):
    def test_one_that_passes_the_second_time_is_flaky(self):
        for suite in ("browser", "clients", "engines"):
            with self.subTest(suite):
                ran = Ran(suite, NODE_PROGRAM, "x")
                self.assertEqual((ran.status, ran.tally), (0, [f"flaky {suite}", "2 0 0"]), ran.output)
                self.assertEqual(ran.lines("FLAKY"), [f"FLAKY {suite}: {suite}"])

    def test_one_that_fails_twice_failed(self):
        ran = Ran("browser", NODE_PROGRAM, "xx")
        self.assertEqual((ran.status, ran.tally), (1, ["1 1 0"]), ran.output)
        self.assertEqual(ran.lines("FAILED"), ["FAILED browser: browser (ended with exit status 1)"])

    def test_those_of_other_suites_have_one_chance(self):
        ran = Ran("unit", NODE_PROGRAM, "x")
        self.assertEqual((ran.status, ran.tally), (1, ["1 1 0"]), ran.output)

    def test_an_exit_status_may_say_that_it_was_skipped(self):
        program = "#!/bin/sh\necho 'a reason of its own'\nexit 77\n"
        ran = Ran("browser", program, "", "SKIP_RETURN_CODE 77")
        self.assertEqual(ran.tally, ["0 1 0"], ran.output)
        self.assertEqual(ran.lines("FAILED"),
                         ["FAILED browser: browser (skipped without an excuse: a reason of its own)"])


class Cases(unittest.TestCase):
    def test_all_pass(self):
        ran = cases("unit", {f"case {n}": ["", ["pass"]] for n in range(9)})
        self.assertEqual((ran.status, ran.tally), (0, ["9 0 0"]), ran.output)
        self.assertRegex(ran.output, r"(?m)^unit: 9 passed, 0 failed, 0 skipped, \d+\.\d s$")
        self.assertEqual(len(ran.output.splitlines()), 2, ran.output)

    def test_names_are_found_whatever_they_are_made_of(self):
        names = ['a, [b] "c"', "-x ~y", "back\\slash", '"quoted" first', "# no comment"]
        ran = cases("unit", {name: ["", ["pass"]] for name in names})
        self.assertEqual((ran.status, sorted(ran.begun)), (0, sorted(names)), ran.output)

    def test_a_failed_case_is_shown_and_others_are_not(self):
        ran = cases("unit", {"good": ["", ["pass"]], "bad": ["", ["fail"]], "none": ["", ["skip:a reason"]]})
        self.assertEqual((ran.status, ran.tally), (1, ["1 2 0"]), ran.output)
        self.assertIn("said by bad", ran.output)
        self.assertNotIn("said by none", ran.output)
        self.assertNotIn("s: good", ran.output)
        self.assertIn("FAILED unit: bad", ran.lines("FAILED"))

    def test_a_skip_without_an_excuse_failed(self):
        ran = cases("unit", {"one": ["", ["skip:no such feature"]], "two": ["", ["skip:no such feature"]]})
        self.assertEqual((ran.status, ran.tally), (1, ["0 2 0"]), ran.output)
        self.assertEqual(ran.lines("FAILED"),
                         ["FAILED unit: one and 1 more (skipped without an excuse: no such feature)"])

    def test_an_excused_reason_is_printed_once(self):
        reason = "the part of the hierarchy that this user was told to have a part of"
        ran = cases("unit", {f"case {n}": ["", [f"skip:{reason}"]] for n in range(3)})
        self.assertEqual((ran.status, ran.tally), (0, ["0 0 3"]), ran.output)
        self.assertEqual(ran.lines("skipped"), [f"skipped unit: {reason} (3 times)"])

    def test_a_program_that_fails_after_its_cases_failed(self):
        ran = cases("integration", {"good": ["", ["pass"]]}, sanitizer=True)
        self.assertEqual((ran.status, ran.tally), (1, ["1 1 0"]), ran.output)
        self.assertIn("a sanitizer speaks", ran.output)

    def test_the_slowest_are_listed(self):
        ran = cases("unit", {f"case {n}": ["", [f"slow:{n}"]] for n in range(30)}, options=["--slow"])
        listed = ran.output[ran.output.index("the slowest"):].splitlines()[1:]
        self.assertEqual(listed, [f"{n:7.1f} s  unit: case {n}" for n in range(29, 9, -1)])


class Repeats(unittest.TestCase):
    def test_what_passes_alone_is_flaky(self):
        ran = cases("integration", {"good": ["", ["pass"]], "late": ["", ["fail", "pass"]]})
        self.assertEqual((ran.status, ran.tally), (0, ["flaky late", "2 0 0"]), ran.output)
        self.assertEqual((ran.lines("FLAKY"), ran.lines("FAILED unit")), (["FLAKY integration: late"], []))
        self.assertEqual((ran.begun[-1], ran.begun.count("good")), ("late", 1))

    def test_what_fails_again_failed(self):
        ran = cases("redteam", {"bad": ["", ["fail", "fail", "pass"]]})
        self.assertEqual((ran.status, ran.tally, ran.begun), (1, ["0 1 0"], ["bad", "bad"]), ran.output)

    def test_what_is_skipped_then_failed(self):
        ran = cases("isolation", {"bad": ["", ["fail", "skip:x86"]]})
        self.assertEqual((ran.status, ran.tally), (1, ["0 1 0"]), ran.output)

    def test_three_flaky_are_let_through_and_four_fail(self):
        ran = cases("isolation", {f"case {n}": ["", ["fail", "pass"]] for n in range(3)})
        self.assertEqual((ran.status, ran.tally[-1]), (0, "3 0 0"), ran.output)
        ran = cases("isolation", {f"case {n}": ["", ["fail", "pass"]] for n in range(4)})
        self.assertEqual((ran.status, ran.tally[-1]), (1, "4 1 0"), ran.output)
        self.assertEqual(ran.lines("FAILED release"), ["FAILED release: 4 flaky tests, at most 3 are let through"])

    def test_flaky_ones_of_an_earlier_build_count(self):
        ran = cases("isolation", {"late": ["", ["fail", "pass"]]}, tally="flaky a\nflaky b\nflaky c\n9 0 0\n")
        self.assertEqual((ran.status, ran.tally[-1]), (1, "1 1 0"), ran.output)

    def test_unit_and_simulation_have_one_chance(self):
        for suite in ("unit", "simulation"):
            ran = cases(suite, {"bad": ["", ["fail", "pass"]]})
            self.assertEqual((ran.status, ran.tally, ran.begun), (1, ["0 1 0"], ["bad"]), ran.output)

    def test_many_failures_are_no_accident(self):
        ran = cases("integration", {f"case {n}": ["", ["fail", "pass"]] for n in range(9)})
        self.assertEqual((ran.status, ran.tally, len(ran.begun)), (1, ["0 9 0"], 9), ran.output)


class Crashes(unittest.TestCase):
    def check(self, step, said, suites=("unit", "integration", "redteam"), **options):
        plan = {f"before {n}": ["", ["pass"]] for n in range(3)}
        plan["the culprit"] = ["", [step, "pass"]]
        plan |= {f"behind {n}": ["", ["pass"]] for n in range(3)}
        for suite in suites:
            ran = cases(suite, plan, **options)
            self.assertEqual((ran.status, ran.tally), (1, ["6 1 0"]), ran.output)
            self.assertEqual(ran.lines("FAILED"), [f"FAILED {suite}: the culprit (its program {said} in it)"])
            self.assertEqual(sorted(ran.begun), sorted(plan), "each was begun once")

    def test_a_signal_is_the_fault_of_the_case_that_ran(self):
        self.check("signal", "was ended by SIGSEGV")

    def test_so_is_an_end_without_a_report(self):
        self.check("vanish", "ended with exit status 1")

    def test_a_case_that_hangs_is_ended_and_the_others_run(self):
        # Longer where a program needs as long to start.
        for seconds in (2, 8, 30):
            try:
                self.check("hang", f"did not go on within {seconds} s", ["integration"],
                           variables={"ATOLL_TEST_CASE_SECONDS": str(seconds)})
                return
            except AssertionError:
                if seconds == 30:
                    raise


class Choices(unittest.TestCase):
    MANY = {f"case {n}": ["", ["pass"]] for n in range(40)}

    def test_full_ones_and_hidden_ones_are_left_out(self):
        plan = {"short": ["[a]", ["pass"]], "long": ["[a][full]", ["pass"]], "hidden": ["[.][a]", ["fail"]]}
        self.assertEqual(cases("unit", plan).begun, ["short"])
        self.assertEqual(sorted(cases("unit", plan, variables={"ATOLL_TEST_FULL": "1"}).begun), ["long", "short"])

    def test_a_sample_is_the_seed_s(self):
        def draw(seed, **options):
            ran = cases("redteam", self.MANY, labels='"catch;sample-4"', variables={"ATOLL_TEST_SEED": seed, **options})
            return ran.begun, ran.output
        drawn, output = draw("7")
        self.assertEqual(len(drawn), 10)
        self.assertIn("one case in 4, 10 of 40, ATOLL_TEST_SEED=7", output)
        self.assertEqual(draw("7")[0], drawn)
        self.assertNotEqual(draw("8")[0], drawn)
        self.assertEqual(len(draw("7", ATOLL_TEST_FULL="1")[0]), 40)

    def test_a_sample_has_so_many_of_those_that_are_drawn(self):
        tagged = {f"drawn {n}": ["[drawn]", ["pass"]] for n in range(4)}
        plan = {**{f"other {n}": ["", ["pass"]] for n in range(36)}, **tagged}
        for seed in range(3):
            def draw(labels):
                return cases("redteam", plan, labels=labels, variables={"ATOLL_TEST_SEED": str(seed)}).begun
            sample, more = draw('"catch;sample-40"'), draw('"catch;sample-40;drawn-3"')
            self.assertEqual(len(sample), 1)
            self.assertLessEqual(set(sample), set(more))
            self.assertEqual(len(set(more) & set(tagged)), 3, "one in the sample is one of the three")

    def test_a_filter_takes_all_that_it_finds(self):
        ran = cases("redteam", self.MANY, labels='"catch;sample-4"', options=["--filter", "^case 1"])
        self.assertEqual(len(ran.begun), 11, ran.output)

    def test_a_filter_that_finds_nothing_fails_the_run(self):
        self.assertEqual(cases("redteam", self.MANY, options=["--filter", "no such"]).tally, ["0 1 0"])


class Shards(unittest.TestCase):
    PLAN = {
        "first alone": ["[a][serial]", ["pass"]],
        "one end": ["", ["meet:r"]],
        "other end": ["", ["meet:w"]],
        "last alone": ["[serial]", ["pass"]],
    }

    def test_two_run_at_once_and_serial_ones_behind_them_alone(self):
        for suite in ("unit", "integration"):
            ran = cases(suite, self.PLAN)
            self.assertEqual((ran.status, ran.tally), (0, ["4 0 0"]), ran.output)
            self.assertEqual(ran.events[-4:], ["begin first alone", "end first alone", "begin last alone", "end last alone"])
            self.assertEqual({re.sub(" .*", "", event) for event in ran.events[:2]}, {"begin"})

    def test_suites_run_beside_one_another_and_their_serial_cases_behind_all_alone(self):
        for group in (("unit", "simulation"), ("browser", "engines")):
            serial = {"alone": ["[serial]", ["pass"]]}
            plan = {f"{suite}_tests": {"end": ["", [f"meet:{mode}"]]} | serial for suite, mode in zip(group, "rw")}
            ran = cases(",".join(group), plan)
            self.assertEqual((ran.status, ran.tally), (0, ["4 0 0"]), ran.output)
            self.assertEqual(ran.events[-4:], 2 * ["begin alone", "end alone"])

    def test_suites_that_measure_are_never_beside_others(self):
        plan = {f"{suite}_tests": {f"{suite} {n}": ["", ["pass"]] for n in range(3)} for suite in ("isolation", "redteam")}
        ran = cases("isolation,redteam", plan)
        self.assertEqual([event[-1] for event in ran.events[6:]], list("001122"), ran.events)
        self.assertTrue(all("redteam" in event for event in ran.events[6:]), ran.events)

    def test_cases_that_measure_are_never_beside_others(self):
        ran = cases("redteam", {f"case {n}": ["", ["pass"]] for n in range(8)})
        self.assertEqual(ran.events, [event for n in range(8) for event in (f"begin case {n}", f"end case {n}")])


unittest.main(verbosity=0)
