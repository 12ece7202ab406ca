"""Runs the tests of this folder; the last lines count them as `node --test` does, which scripts/test reads."""

import sys
import unittest


def main():
    loader = unittest.defaultTestLoader
    chosen = sys.argv[1:]
    suite = loader.loadTestsFromNames(chosen) if chosen else loader.discover(".", pattern="*_test.py")
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"# pass {result.testsRun - failed - len(result.skipped)}")
    print(f"# fail {failed}")
    print(f"# skipped {len(result.skipped)}")
    # No test, no success.
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)


main()
