#!/usr/bin/env -S python3 -B
"""scripts/setup: the package of the console's terminal, the engines of code mode, apt's entry for backports, what root leaves."""

import os
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOCK = Path("http/console/npm/package-lock.json")
# What scripts/setup calls besides bash's own commands.
TOOLS = ["bash", "awk", "cat", "chown", "cksum", "cp", "dirname", "find", "install", "mkdir", "rm", "sed", "setpriv", "sort", "stat", "uname"]
STAND_INS = {
    # Each package is there, of a version that is new enough.
    "dpkg-query": 'shift 3; for name; do echo "ii |$name|9"; done',
    "dpkg": "exit 1",
    "bwrap": "exit 0",
    "node": "exit 0",
}
# A user of the tests' own.
USER = 12345
AS_USER = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
NPM = 'echo "npm $*" >>"$CALLS"; [[ ! -e $BROKEN ]] || exit 1; mkdir node_modules'


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="atoll-setup-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree, self.bin = self.folder / "my tree", self.folder / "bin"
        self.calls, self.broken = self.folder / "calls", self.folder / "broken"
        for path in ["scripts/setup", "scripts/lib/common.sh", "http/console/npm/package.json", str(LOCK)]:
            (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.tree / path)
        self.bin.mkdir()
        for name in TOOLS:
            found = shutil.which(name)
            if found:
                (self.bin / name).symlink_to(found)
        for name, text in STAND_INS.items():
            self.stand_in(name, text)
        # As apt-get does where a package can be had: then there is an npm.
        script = f'#!/bin/bash\n{NPM}\n'
        self.stand_in("apt-get", f'echo "apt-get" >>"$CALLS"; [[ ! -e $BROKEN ]] || exit 1; printf %s {sh(script)} >{self.bin}/npm; '
                      f"{shutil.which('chmod')} 755 {self.bin}/npm")
        self.into = self.tree / "build/npm/console"

    def stand_in(self, name, text):
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def put_in(self, path, other):
        """In the copy of scripts/setup, `path` of the machine is `other`."""
        script = self.tree / "scripts/setup"
        text = script.read_text()
        self.assertIn(path, text)
        script.write_text(text.replace(path, str(other)))

    def give_to_user(self, folder):
        if os.geteuid() == 0:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, USER, USER, follow_symlinks=False)


class FetchTerminal(Tree):
    def setup(self):
        """Its stderr, and which programs it has called by then."""
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "BROKEN": str(self.broken)}
        done = subprocess.run([str(self.tree / "scripts/setup")], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        calls = self.calls.read_text().split("\n")[:-1] if self.calls.exists() else []
        return done.stderr, [call.split(" ci")[0] for call in calls]

    def test_the_package_is_fetched_once_for_each_lock_file(self):
        self.stand_in("npm", NPM)
        for _ in range(2):
            self.assertEqual(self.setup()[1], ["npm"])
        with (self.tree / LOCK).open("a") as lock:
            lock.write("\n")
        shutil.rmtree(self.into / "node_modules")
        self.assertEqual(self.setup()[1], ["npm", "npm"])
        self.assertEqual((self.into / "package-lock.json").read_text(), (self.tree / LOCK).read_text())

    def test_a_failure_is_told_in_one_line_and_not_repeated_for_an_hour(self):
        self.stand_in("npm", NPM)
        self.broken.touch()
        self.assertIn("no terminal", self.setup()[0])
        told, calls = self.setup()
        self.assertEqual((told.count("\n"), calls), (1, ["npm"]), told)
        self.assertIn("no terminal", told)
        past = time.time() - 3700
        os.utime(self.into / "failed", (past, past))
        self.broken.unlink()
        self.assertEqual(self.setup(), ("", ["npm", "npm"]))
        self.assertFalse((self.into / "failed").exists())

    def test_a_failure_counts_for_its_lock_file_alone(self):
        self.stand_in("npm", NPM)
        self.broken.touch()
        self.setup()
        with (self.tree / LOCK).open("a") as lock:
            lock.write("\n")
        self.assertEqual(self.setup()[1], ["npm", "npm"])

    @unittest.skipUnless(os.geteuid() == 0, "only root installs packages")
    def test_root_gets_npm_and_a_machine_without_it_is_ready_all_the_same(self):
        self.broken.touch()
        told, calls = self.setup()
        self.assertIn("there is no npm", told)
        self.assertEqual(set(calls), {"apt-get"})
        self.calls.unlink()
        self.broken.unlink()
        (self.into / "failed").unlink()
        self.assertEqual(self.setup()[1], ["apt-get", "npm"])

    @unittest.skipUnless(os.geteuid() == 0, "only root makes the build folder for the owner of the checkout")
    def test_root_needs_no_build_folder(self):
        # As refused as in a checkout on a file system that is mounted read-only.
        (self.tree / "build").touch()
        self.assertIn("cannot write into", self.setup()[0])


class Executors(Tree):
    """scripts/setup --executors: the packages are fetched once for each lock file, and runners copied each time."""

    NPM = 'echo "npm $*" >>"$CALLS"; [[ ! -e $BROKEN ]] || exit 1; mkdir node_modules; echo "$#" >node_modules/made'

    def setUp(self):
        super().setUp()
        for path in ["scripts/executors/package.json", "scripts/executors/package-lock.json"]:
            (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.tree / path)
        shutil.copytree(ROOT / "bridge/runner/engines", self.tree / "bridge/runner/engines")
        for name in ["mv", "rmdir", "chmod"]:
            if not (self.bin / name).exists():
                (self.bin / name).symlink_to(shutil.which(name))
        self.stand_in("npm", self.NPM)
        self.executors = self.tree / "build/executors"

    def executors_setup(self, *before):
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "BROKEN": str(self.broken)}
        # --tests puts them into the build folder for every user.
        return subprocess.run([*before, str(self.tree / "scripts/setup"), "--tests"], env=environment, capture_output=True, text=True,
                              timeout=60, check=False)

    def fetches(self):
        return self.calls.read_text().count("--loglevel=error") if self.calls.exists() else 0

    def test_engines_are_fetched_once_and_runners_are_renewed(self):
        for _ in range(2):
            done = self.executors_setup()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.fetches(), 1)
        (self.tree / "bridge/runner/engines/session.mjs").write_text("changed")
        self.assertEqual(self.executors_setup().returncode, 0)
        self.assertEqual((self.executors / "runner/session.mjs").read_text(), "changed")
        with (self.tree / "scripts/executors/package-lock.json").open("a") as lock:
            lock.write("\n")
        self.assertEqual(self.executors_setup().returncode, 0)
        self.assertEqual(self.fetches(), 2)

    def test_a_failure_is_one_and_leaves_what_was_there(self):
        self.assertEqual(self.executors_setup().returncode, 0)
        with (self.tree / "scripts/executors/package-lock.json").open("a") as lock:
            lock.write("\n")
        self.broken.touch()
        done = self.executors_setup()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("could not fetch the engines", done.stderr)
        self.assertTrue((self.executors / "node_modules/made").exists())
        self.broken.unlink()
        self.assertEqual(self.executors_setup().returncode, 0)

    @unittest.skipUnless(os.geteuid() == 0, "only root can leave files of root")
    def test_what_root_makes_is_the_owners_of_the_checkout(self):
        for works in (False, True):
            with self.subTest(works=works):
                shutil.rmtree(self.tree / "build", ignore_errors=True)
                self.give_to_user(self.folder)
                if works:
                    self.broken.unlink()
                else:
                    self.broken.touch()
                self.assertEqual(self.executors_setup().returncode == 0, works)
                built = [self.tree / "build", *(self.tree / "build").rglob("*")]
                self.assertIn(self.executors, built)
                self.assertEqual([path for path in built if path.lstat().st_uid != USER], [])
                self.calls.unlink()
        (self.tree / "bridge/runner/engines/session.mjs").write_text("changed")
        done = self.executors_setup(*AS_USER)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.executors / "runner/session.mjs").read_text(), "changed")


class Told(Tree):
    """What a user is told to do as root is a command for a shell."""

    def told(self):
        self.give_to_user(self.folder)
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "BROKEN": str(self.broken)}
        before = AS_USER if os.geteuid() == 0 else []
        done = subprocess.run([*before, str(self.tree / "scripts/setup"), "--bench"], env=environment, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        return shlex.split(done.stderr.strip().split("\n")[-1])

    def test_how_to_install_packages(self):
        self.stand_in("dpkg-query", "exit 1")
        self.assertEqual(self.told(), ["sudo", str(self.tree / "scripts/setup"), "--bench"])

    def test_how_to_install_the_profile(self):
        self.stand_in("bwrap", "exit 1")
        knob = self.folder / "knob"
        knob.write_text("1\n")
        self.put_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", knob)
        self.assertEqual(self.told()[3], str(self.tree / "scripts/apparmor/bwrap-atoll"))


def sh(text):
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    unittest.main()
