#!/usr/bin/env -S python3 -B
"""scripts/setup: the package of the console's terminal, the engines of code mode, apt's entry for backports, what root leaves."""

import json
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
# The programs that scripts/setup calls besides bash's own commands.
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
        # This apt-get brings an npm, as the real one does where the package can be had.
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
        # A file in place of the folder refuses writes, as a file system that is mounted read-only does.
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


class Agents(Tree):
    """scripts/setup --agents: packages of the named ones, and a file of all recipes."""

    def setUp(self):
        super().setUp()
        shutil.copytree(ROOT / "scripts/agents", self.tree / "scripts/agents")
        for name in ["jq", "mv", "rmdir", "chmod"]:
            if not (self.bin / name).exists():
                (self.bin / name).symlink_to(shutil.which(name))
        self.stand_in("npm", Executors.NPM)
        self.agents = self.tree / "build/agents"
        self.put_in("into=/usr/local/lib/atoll/agents", f"into={shlex.quote(str(self.agents))}")

    def agents_setup(self, names):
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "BROKEN": str(self.broken)}
        return subprocess.run([str(self.tree / "scripts/setup"), "--agents", names], env=environment, capture_output=True, text=True,
                              timeout=60, check=False)

    def test_the_named_ones_are_installed_and_all_are_listed(self):
        for _ in range(2):
            done = self.agents_setup("claude,codex")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls.read_text().count("--loglevel=error"), 2)
        self.assertTrue((self.agents / "claude/node_modules").is_dir())
        self.assertFalse((self.agents / "gemini").exists())
        listed = json.loads((self.agents / "agents.json").read_text())["agents"]
        self.assertEqual([agent["name"] for agent in listed], ["claude", "claude-acp", "codex", "copilot", "gemini", "opencode"])
        self.assertEqual(listed[4]["dir"], str(self.agents / "gemini"))
        self.assertEqual(listed[4]["setup"], "scripts/setup --agents gemini")

    def test_an_unknown_one_is_refused_with_those_there_are(self):
        done = self.agents_setup("claude,nobody")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no agent nobody; there are: claude-acp claude codex copilot gemini opencode", done.stderr)


class Told(Tree):
    """The command that a user is told to run as root is quoted for a shell."""

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


@unittest.skipUnless(os.geteuid() == 0, "only root installs packages")
class Backports(Tree):
    """The entry for apt that Debian 12 gets, derived from one for Debian's own suite."""

    # The fields that apt-get indextargets tells of a list.
    FIELDS = ["RELEASE", "CODENAME", "ORIGIN", "REPO_URI", "SOURCESENTRY"]
    DEBIAN = "bookworm|bookworm|Debian|http://mirror.example/debian/|{entries}/debian.list:1"
    CDROM = "bookworm|bookworm|Debian|cdrom:[Debian 12]/|{entries}/debian.list:2"
    # The first of all in the alphabet.
    STRANGER = "bookworm|bookworm|Docker|http://a.example/linux/debian/|{entries}/stranger.list:1"
    BACKPORTS = "bookworm-backports|bookworm-backports|Debian Backports|http://mirror.example/debian/|{entries}/atoll-backports.sources:1"

    def setUp(self):
        super().setUp()
        self.stand_in("npm", NPM)
        self.entries, self.release = self.folder / "sources.list.d", self.folder / "os-release"
        self.entries.mkdir()
        self.entry = self.entries / "atoll-backports.sources"
        (self.entries / "debian.list").write_text("deb [signed-by=/keys/debian] http://mirror.example/debian bookworm main\n")
        (self.entries / "stranger.list").write_text("deb [signed-by=/keys/stranger] http://a.example/linux/debian bookworm stable\n")
        self.release.write_text("ID=debian\nVERSION_ID=12\nVERSION_CODENAME=bookworm\n")
        self.put_in("/etc/os-release", self.release)
        self.put_in("/etc/apt/sources.list.d", self.entries)
        self.targets, self.fetched = self.folder / "targets", self.folder / "fetched"
        self.stand_in("dpkg-query", 'shift 3; for name; do [[ $name == catch2 && ! -e $INSTALLED ]] || echo "ii |$name|9"; done')
        # An update brings what the file `fetched` lists, the backports if there is an entry for them, and fails if $BROKEN exists.
        self.stand_in("apt-get", f"""
            echo "apt-get $*" >>"$CALLS"
            case " $* " in
                *' indextargets '*)
                    [[ -e {self.targets} ]] || exit 0
                    while IFS='|' read -r {' '.join(self.FIELDS)}; do
                        line=$3
                        for field in {' '.join(self.FIELDS)}; do line=${{line//"\$($field)"/${{!field}}}}; done
                        echo "$line"
                    done <{self.targets}
                    ;;
                *' update '*)
                    while IFS= read -r line; do
                        [[ $line == *atoll-backports* && ! -e {self.entry} ]] || echo "$line"
                    done <{self.fetched} >{self.targets}
                    [[ ! -e $BROKEN ]]
                    ;;
                *' install '*) : >"$INSTALLED" ;;
            esac""")

    def install(self, fetched, known=None):
        """Its exit status and stderr; `known`: the lists that were fetched before."""
        for path, lines in ((self.fetched, fetched), (self.targets, known)):
            if lines is not None:
                path.write_text("".join(line.format(entries=self.entries) + "\n" for line in lines))
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "BROKEN": str(self.broken), "INSTALLED": str(self.folder / "installed")}
        done = subprocess.run([str(self.tree / "scripts/setup")], env=environment, capture_output=True, text=True, timeout=60,
                              umask=0o077, check=False)
        return done.returncode, done.stderr

    def has_installed(self):
        return "install -y --no-install-recommends --no-remove -t bookworm-backports catch2" in self.calls.read_text()

    def test_it_is_derived_from_debians_mirror_and_all_may_read_it(self):
        lists = [self.STRANGER, self.CDROM, self.DEBIAN, self.BACKPORTS]
        for known in ([self.STRANGER, self.CDROM, self.DEBIAN], None):
            with self.subTest(known=known):
                for path in (self.entry, self.targets, self.folder / "installed"):
                    path.unlink(missing_ok=True)
                status, told = self.install(lists, known)
                self.assertEqual(status, 0, told)
                self.assertEqual(self.entry.read_text(), "Types: deb\nURIs: http://mirror.example/debian/\nSuites: bookworm-backports\n"
                                 "Components: main\nSigned-By: /keys/debian\n")
                self.assertEqual(self.entry.stat().st_mode & 0o777, 0o644)
                self.assertTrue(self.has_installed())

    def test_an_entry_that_brings_nothing_is_removed(self):
        status, told = self.install([self.DEBIAN], [self.DEBIAN])
        self.assertEqual(status, 1)
        self.assertIn("no package lists of bookworm-backports came from http://mirror.example/debian/", told)
        self.assertFalse(self.entry.exists())
        self.assertFalse(self.has_installed())

    def test_another_repository_that_is_broken_is_in_nobodys_way(self):
        self.broken.touch()
        status, told = self.install([self.DEBIAN, self.BACKPORTS], [self.DEBIAN])
        self.assertEqual(status, 0, told)
        self.assertTrue(self.entry.exists() and self.has_installed())

    def test_without_debians_mirror_nothing_is_added(self):
        for lists in ([self.STRANGER], [self.STRANGER, self.CDROM]):
            status, told = self.install(lists, lists)
            self.assertEqual(status, 1)
            self.assertIn("no mirror of Debian's bookworm", told)
            self.assertFalse(self.entry.exists())

    def test_an_entry_that_is_there_is_taken(self):
        own = "bookworm-backports|bookworm-backports|our mirror|http://own.example/|{entries}/own.list:1"
        for lists in ([self.DEBIAN, self.BACKPORTS.replace("atoll-backports", "debian")], [own]):
            (self.folder / "installed").unlink(missing_ok=True)
            status, told = self.install(lists, lists)
            self.assertEqual(status, 0, told)
            self.assertFalse(self.entry.exists())
            self.assertTrue(self.has_installed())


def sh(text):
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    unittest.main()
