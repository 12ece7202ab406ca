#!/usr/bin/env python3
"""The verdicts of scripts/lib/vm_results.py on a machine's results: above all, when it must refuse them."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "scripts" / "lib" / "vm_results.py"
BOOTED, DONE = "vm-test: booted\n", "vm-test: done\n"


def xml(*cases):
    inside = "".join(f'<testcase name="{name}" time="0.1">{said}</testcase>' for name, said in cases)
    return f'<?xml version="1.0"?><testsuites><testsuite>{inside}</testsuite></testsuites>'


def run(name, status, text):
    return f"run {name} {status} {len(text)}\n{text}\n"


def judge(results, runs=("a",), status=0):
    with tempfile.TemporaryDirectory() as folder:
        if results is not None:
            Path(folder, "results").write_text(results)
        Path(folder, "console.log").write_text("the last words\n")
        command = [sys.executable, PROGRAM, folder, "--status", str(status), "--seconds", "9", "--", *runs]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout


class Results(unittest.TestCase):
    def refused(self, saying, *arguments, **named):
        status, said = judge(*arguments, **named)
        self.assertEqual(status, 1, said)
        self.assertIn(saying, said)
        self.assertIn("the last words", said)

    def test_all_passed(self):
        text = xml(("one", ""), ("two", ""))
        status, said = judge(BOOTED + run("a", 0, text) + run("b", 0, text) + DONE, runs=("a", "b"))
        self.assertEqual(status, 0, said)
        self.assertIn("passed   one", said)
        self.assertTrue(said.endswith("4 passed, 0 failed, 0 skipped\n"), said)

    def test_a_failure_and_a_skip_count(self):
        self.refused("it broke", BOOTED + run("a", 1, xml(("x", '<failure message="it broke"/>'))) + DONE)
        self.refused("no way", BOOTED + run("a", 4, xml(("x", '<skipped message="no way"/>'), ("y", ""))) + DONE)

    def test_nothing_ran(self):
        self.refused("no test was run", BOOTED + run("a", 0, xml()) + DONE)
        self.refused("it did not end", BOOTED + DONE)
        self.refused("it took too long", BOOTED + run("a", 124, "") + DONE)
        self.refused("the program ended with 139", BOOTED + run("a", 139, xml(("x", ""))) + DONE)

    def test_the_machine_failed(self):
        good = run("a", 0, xml(("x", "")))
        self.refused("did not boot", None)
        self.refused("did not boot", "")
        self.refused("did not end within 9 s", BOOTED + good, status=124)
        self.refused("broke down", BOOTED + good)
        self.refused("broke down", BOOTED + good + DONE, status=1)


unittest.main()
