"""A soak can fail: resources that grew are named, others are not."""

import contextlib
import io
import os
import subprocess
import sys
import unittest

import footprint

FIRST = dict.fromkeys(footprint.ALLOWED, 100)


def grown(**changes):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        names = footprint.report(FIRST, {**FIRST, **changes})
    return names, printed.getvalue()


class Report(unittest.TestCase):
    def test_what_stayed_is_no_failure(self):
        self.assertEqual(grown()[0], [])

    def test_each_kind_that_grew_is_named_with_its_numbers(self):
        for name in footprint.ALLOWED:
            names, printed = grown(**{name: 10**12})
            self.assertEqual(names, [name])
            self.assertIn("1,000,000,000,000", printed)

    def test_what_shrank_is_no_failure(self):
        self.assertEqual(grown(**dict.fromkeys(FIRST, 0))[0], [])

    def test_one_workspace_that_is_left_is_one_too_many(self):
        self.assertEqual(grown(workspaces=101)[0], ["workspaces"])


class Processes(unittest.TestCase):
    def test_children_are_found_with_their_names(self):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            self.assertIn(child.pid, footprint.children(os.getpid()))
            self.assertIn("python", footprint.name_of(child.pid))
            child.stdin.close()
        self.assertNotIn(child.pid, footprint.children(os.getpid()))
        self.assertEqual(footprint.name_of(child.pid), "")


if __name__ == "__main__":
    unittest.main()
