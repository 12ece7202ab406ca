"""The tests of a build folder, as ctest knows them: whole programs, each with its suite."""

import json
import os
import re
import subprocess
import sys

SUITES = ("unit", "simulation", "isolation", "redteam", "integration", "browser", "clients", "engines")


class Test:
    """A program that ctest knows, and how it is to be started."""

    def __init__(self, listed, build):
        properties = {entry["name"]: entry["value"] for entry in listed.get("properties", ())}
        self.name = listed["name"]
        self.command = listed.get("command") or []
        self.labels = properties.get("LABELS") or []
        self.directory = properties.get("WORKING_DIRECTORY") or str(build)
        self.environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT") or ())
        self.skip_status = properties.get("SKIP_RETURN_CODE")
        self.suite = suite_of(self.name, self.command, build)
        # Beside no other program of its suite.
        self.is_alone = bool(properties.get("RESOURCE_LOCK")) or properties.get("RUN_SERIAL") is True

    @property
    def is_catch(self):
        """True for a program of Catch2, whose cases can be listed (add_catch_test in tests/CMakeLists.txt)."""
        return "catch" in self.labels or any(word.startswith("xml::out=") for word in self.command)

    @property
    def sampled_of(self):
        """N where its label is `sample-N`: the gate runs one in N of its cases."""
        return self.number_in_label("sample", 1)

    @property
    def least_drawn(self):
        """How many of its cases tagged [drawn] are in the sample at least: its label `drawn-N`."""
        return self.number_in_label("drawn", 0)

    def number_in_label(self, word, default):
        found = (re.fullmatch(rf"{word}-([1-9]\d*)", label) for label in self.labels)
        return next((int(match[1]) for match in found if match), default)


def suite_of(name, command, build):
    """By the folder or name of the program, then by the test's name."""
    program = os.path.relpath(command[0], build) if command else ""
    for text in [program, name]:
        for suite in SUITES:
            if re.search(rf"\b{suite}|[_-]{suite}", text):
                return suite
    return "other"


def wants_full():
    return os.environ.get("ATOLL_TEST_FULL") == "1"


def tests_of(build):
    """All of them, without those labelled `full` where these are not asked for."""
    listing = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True)
    if listing.returncode != 0:
        sys.exit(f"test: ctest cannot list the tests of {build}: {listing.stderr.strip()}")
    tests = [Test(listed, build) for listed in json.loads(listing.stdout)["tests"]]
    return [test for test in tests if wants_full() or "full" not in test.labels]
