#!/usr/bin/env -S python3 -B
"""Usage: run_tests_test.py

What scripts/lib/run_tests.py makes of failures, with a program that stands in for one of Catch2: a test case that
passes alone is told as unstable, one that fails again is a failure, many are not tried again, a crash never is.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# argv[1] of the program says how many test cases fail, and which of them fail alone as well.
PROGRAM = r"""#!/usr/bin/env python3
import re, sys
from pathlib import Path
here = Path(__file__).resolve().parent
plan = (here / "plan").read_text().split()
failing, again, crashes = int(plan[0]), plan[1].split(","), plan[2] == "crash"
if sys.argv[1] != "--reporter":
    name = re.sub(r"\\(.)", r"\1", sys.argv[1])
    (here / "asked").open("a").write(name + "\n")
    if name.split("-")[1] in again:
        print("test cases: 1 | 1 failed\nassertions: 1 | 1 failed")
        sys.exit(1)
    print("All tests passed (1 assertion in 1 test case)")
    sys.exit(0)
cases = "".join(f'<TestCase name="a, [b] &quot;c&quot;-{n}"><OverallResult success="{str(n >= failing).lower()}"/></TestCase>'
                for n in range(9))
(here / "Testing").mkdir(exist_ok=True)
(here / "Testing" / "catch-unit.xml").write_text(f"<Catch2TestRun>{cases}" + ("" if crashes else "</Catch2TestRun>"))
print(f"test cases: 9 | {9 - failing} passed | {failing} failed\nassertions: 9 | {9 - failing} passed | {failing} failed")
if crashes:
    print("a sanitizer speaks")
sys.exit(1)
"""


# A program of Node's tests: fails as often as its file `plan` has letters.
NODE_PROGRAM = r"""#!/usr/bin/env python3
import sys
from pathlib import Path
plan = Path(__file__).resolve().parent / "plan"
left = plan.read_text()
plan.write_text(left[1:])
print(f"# pass {2 - bool(left)}\n# fail {int(bool(left))}\n# cancelled 0\n# skipped 0")
sys.exit(bool(left))
"""


class WholePrograms(unittest.TestCase):
    def run_plan(self, failures):
        """(exit status, tally, output)"""
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder)
            program = build / "browser"
            program.write_text(NODE_PROGRAM)
            program.chmod(0o755)
            (build / "plan").write_text("x" * failures)
            (build / "CTestTestfile.cmake").write_text(f'add_test(browser "{program}")\n')
            run = subprocess.run([sys.executable, "-B", ROOT / "scripts/lib/run_tests.py", build, "--build", "release",
                                  "--suites", "browser", "--tally", build / "tally"], capture_output=True, text=True)
            return run.returncode, (build / "tally").read_text().strip(), run.stdout + run.stderr

    def test_one_that_passes_the_second_time_is_unstable(self):
        status, tally, output = self.run_plan(1)
        self.assertEqual((status, tally), (0, "2 0 0"), output)
        self.assertIn("UNSTABLE (failed, then passed alone) release browser: browser", output)

    def test_one_that_fails_twice_failed(self):
        status, tally, output = self.run_plan(2)
        self.assertEqual((status, tally), (1, "1 1 0"), output)
        self.assertIn("FAILED release browser: browser", output)


class Repeats(unittest.TestCase):
    def run_plan(self, failing, again="-", end="ends"):
        """(exit status, tally, output, names of the test cases that were tried again)"""
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder)
            program = build / "unit_tests"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            (build / "plan").write_text(f"{failing} {again} {end}")
            (build / "CTestTestfile.cmake").write_text(f'add_test(unit "{program}" "--reporter" "console")\n')
            run = subprocess.run([sys.executable, "-B", ROOT / "scripts/lib/run_tests.py", build, "--build", "release",
                                  "--suites", "unit", "--tally", build / "tally"], capture_output=True, text=True)
            asked = build / "asked"
            return (run.returncode, (build / "tally").read_text().strip(), run.stdout + run.stderr,
                    asked.read_text().splitlines() if asked.exists() else [])

    def test_what_passes_alone_is_unstable(self):
        status, tally, output, asked = self.run_plan(2)
        self.assertEqual((status, tally), (0, "9 0 0"), output)
        self.assertEqual(asked, ['a, [b] "c"-0', 'a, [b] "c"-1'])
        self.assertIn('UNSTABLE (failed, then passed alone) release unit: a, [b] "c"-0', output)

    def test_what_fails_again_failed(self):
        status, tally, output, _ = self.run_plan(2, "1")
        self.assertEqual((status, tally), (1, "8 1 0"), output)
        self.assertIn('FAILED release unit: a, [b] "c"-1', output)

    def test_many_failures_are_no_accident(self):
        status, tally, _, asked = self.run_plan(4)
        self.assertEqual((status, tally, asked), (1, "5 4 0", []))

    def test_a_crash_is_not_tried_again(self):
        status, tally, _, asked = self.run_plan(1, "-", "crash")
        self.assertEqual((status, tally, asked), (1, "8 1 0", []))


unittest.main(verbosity=0)
