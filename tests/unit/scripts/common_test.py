#!/usr/bin/env -S python3 -B
"""The functions of scripts/lib/common.sh for the scripts that build."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class BuildsDir(unittest.TestCase):
    def test_a_folder_that_the_environment_names_is_written_as_cmake_does(self):
        with tempfile.TemporaryDirectory(prefix="atoll-common-") as folder:
            for named in ("builds", "./a/../builds/", f"{folder}/builds"):
                told = subprocess.run(["bash", "-euc", f"source {ROOT}/scripts/lib/common.sh; cd /; builds_dir; printenv ATOLL_BUILD_DIR"],
                                      cwd=folder, env={**os.environ, "ATOLL_BUILD_DIR": named}, check=True, capture_output=True, text=True)
                # The scripts that this one calls have it, too.
                self.assertEqual(told.stdout, f"{folder}/builds\n" * 2, named)


class MakeTargets(unittest.TestCase):
    def test_the_folder_is_locked_as_long_as_the_builder_runs(self):
        with tempfile.TemporaryDirectory(prefix="atoll-common-") as folder:
            builder = Path(folder) / "ninja"
            # Takes the lock if it can, and says so.
            builder.write_text('#!/bin/sh\nflock -n "$2/.atoll-lock" echo free >"$2/seen" || echo held >"$2/seen"\n')
            builder.chmod(0o755)
            subprocess.run(["bash", "-euc", f'source {ROOT}/scripts/lib/common.sh; build=$1; make_targets all', "-", folder],
                           env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, check=True)
            self.assertEqual((Path(folder) / "seen").read_text(), "held\n")
            after = subprocess.run(["flock", "-n", Path(folder) / ".atoll-lock", "true"])
            self.assertEqual(after.returncode, 0, "the lock ends with the builder")


unittest.main(verbosity=0)
