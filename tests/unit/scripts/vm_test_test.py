#!/usr/bin/env -S python3 -B
"""scripts/vm-test with stand-ins for the programs that build, fetch and boot: in a checkout with a blank, in another language."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STAND_INS = {
    # This apt-cache speaks German unless LC_ALL is C.
    "apt-cache": '[[ $LC_ALL == C ]] && word=Depends: || word="Hängt ab von:"; echo "  $word linux-image-6.1-cloud"',
    "apt-get": 'for last; do :; done; echo "$last" >>"$SEEN/fetched"; : >"$last.deb"',
    "dpkg-deb": '[[ $1 == -I ]] || { mkdir -p "$3/boot" "$3/lib/modules/6/kernel"; : >"$3/boot/vmlinuz-6"; }',
    "cmake": "exit 0",
    "ninja": "exit 0",
    "strip": 'cp "$3" "$2"',
    # The machine's files are in the current folder.
    "busybox": 'if [[ $1 == cpio ]]; then cat >/dev/null; cp vm/path "$SEEN/path"; else exec "$@"; fi',
    "qemu-system-x86_64": "exit 0",
}


@unittest.skipUnless(os.uname().machine == "x86_64", "needs x86: so is the machine")
class VmTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="atoll-vm-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree, self.bin = self.folder / "my tree", self.folder / "bin"
        for path in ["scripts/vm-test", "scripts/workspace-image", "scripts/lib/common.sh", "tests/vm/runs", "tests/vm/init"]:
            (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.tree / path)
        self.bin.mkdir()
        for name, text in STAND_INS.items():
            self.make(self.bin / name, text)
        self.make(self.tree / "scripts/setup", "exit 0")
        (self.tree / "scripts/lib/vm_results.py").touch()
        script = (self.tree / "scripts/vm-test").read_text()
        # Programs that only the packages of --vm bring may be missing here: these get stand-ins.
        for name in re.search(r"programs=\((.*?)\)", script, re.S)[1].split():
            if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
                self.make(self.bin / name, "exit 0")
        self.build = self.tree / "build/release"
        for name in re.search(r"build\"/bin/\{(.*?)\}", script)[1].split(","):
            self.make(self.build / "bin" / name, "exit 0")
        for name in ("agents/hostile_agent", "probe/probe", "redteam/attack", "bin/engines/runner"):
            self.make(self.build / name, "exit 0")

    def make(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def test_a_blank_and_another_language(self):
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder), "SEEN": str(self.folder)}
        for name in ("ATOLL_BUILD_DIR", "XDG_CACHE_HOME", "LC_ALL"):
            environment.pop(name, None)
        done = subprocess.run([self.tree / "scripts/vm-test"], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "fetched").read_text(), "linux-image-6.1-cloud\n")
        # The file `path` is read in the way of tests/vm/init.
        path = subprocess.run(["bash", "-euc", 'PATH=/bin; . "$1"; echo "$PATH"', "-", self.folder / "path"], capture_output=True, text=True)
        self.assertEqual((path.stdout, path.stderr), (f"{self.build}/bin:/bin\n", ""))
        self.assertIn("\n. /vm/path\n", (self.tree / "tests/vm/init").read_text())


unittest.main(verbosity=0)
