"""Reads the results of the virtual machine of scripts/vm-test, prints each test with its result, and judges.

Called by scripts/vm-test: vm_results.py FOLDER --status STATUS --seconds N -- RUN...
FOLDER has `results`, written by tests/vm/init: `run NAME STATUS BYTES` before as many bytes of JUnit's XML, a line
at the start and one at the end; and `console.log`.
"""

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

RUN = re.compile(rb"^run (\S+) (\d+) (\d+)\n", re.M)
TIMED_OUT = 124
CONSOLE_LINES = 60


def parse(data):
    """name -> (exit status, XML) of each run that ended."""
    runs, at = {}, 0
    while match := RUN.search(data, at):
        size = int(match[3])
        runs[match[1].decode()] = (int(match[2]), data[match.end() : match.end() + size])
        at = match.end() + size
    return runs


def verdict(case):
    """(word, message) of one test case of JUnit's XML."""
    for word, tag in (("FAILED", "failure"), ("FAILED", "error"), ("SKIPPED", "skipped")):
        found = case.find(tag)
        if found is not None:
            return word, " ".join(((found.get("message") or "") + "\n" + (found.text or "")).split())
    return "passed", ""


def tell(name, status, xml):
    """Prints one run; returns [passed, failed, skipped]."""
    try:
        cases = list(ElementTree.fromstring(xml).iter("testcase"))
    except ElementTree.ParseError:
        why = "it took too long" if status == TIMED_OUT else f"exit status {status}"
        print(f"== {name}\nFAILED   no results: {why}")
        return [0, 1, 0]
    counts = {"passed": 0, "FAILED": 0, "SKIPPED": 0}
    print(f"== {name}")
    for case in cases:
        word, said = verdict(case)
        counts[word] += 1
        print(f"{word:8} {case.get('name')} ({float(case.get('time', 0)):.1f} s)" + (f"\n         {said}" if said else ""))
    if not cases:
        print("FAILED   no test was run")
        counts["FAILED"] += 1
    elif status != 0 and not counts["FAILED"]:
        print(f"FAILED   the program ended with {status}")
        counts["FAILED"] += 1
    return [counts["passed"], counts["FAILED"], counts["SKIPPED"]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--status", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("runs", nargs="+")
    given = parser.parse_args()

    results = given.folder / "results"
    data = results.read_bytes() if results.exists() else b""
    runs = parse(data)
    totals = [0, 0, 0]
    for name in given.runs:
        if name in runs:
            counts = tell(name, *runs[name])
        else:
            print(f"== {name}\nFAILED   it did not end")
            counts = [0, 1, 0]
        totals = [a + b for a, b in zip(totals, counts)]
    why = ""
    if b"vm-test: booted" not in data:
        why = "the machine did not boot"
    elif given.status == TIMED_OUT:
        why = f"the machine did not end within {given.seconds} s"
    elif b"vm-test: done" not in data or given.status != 0:
        why = f"the machine broke down (qemu's exit status {given.status})"
    if why or totals[1] or totals[2]:
        console = given.folder / "console.log"
        text = console.read_bytes().decode(errors="replace") if console.exists() else ""
        print(f"== the end of {console}")
        print("\n".join(text.replace("\r", "").rstrip("\n").split("\n")[-CONSOLE_LINES:]))
    if why:
        print(f"FAILED   {why}")
        totals[1] += 1
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    # A machine of our own has all that the tests need: there is no excuse for a skip.
    sys.exit(1 if totals[1] or totals[2] or not totals[0] else 0)


main()
