#!/usr/bin/env -S python3 -B
"""The hosts that scripts/egress-hosts finds, with programs that stand in for npm and pip."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "egress-hosts"
HELP = "  -i, --index-url <url>  Base URL of the Python\n      Package Index (default\n      https://index.example/simple). This should"


class EgressHosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="atoll-egress-hosts-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def stand_in(self, program, answers):
        """A program that prints the answer for its first two words, and fails for others."""
        cases = "".join(f"'{words}') cat <<'EOF'\n{text}\nEOF\n;;\n" for words, text in answers.items())
        path = self.folder / program
        path.write_text(f'#!/bin/sh\ncase "$1 $2" in\n{cases}*) exit 1;;\nesac\n')
        path.chmod(0o755)

    def hosts(self, program):
        run = subprocess.run([SCRIPT, program], env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}, capture_output=True, text=True)
        return run.stdout.strip(), run.returncode, run.stderr

    def npm(self, config, tarball):
        self.stand_in("npm", {"config list": json.dumps(config), "view npm": tarball})
        return self.hosts("npm")

    def pip(self, config, url=None):
        report = {"pip": {"install --dry-run": json.dumps({"install": [{"download_info": {"url": url}}]})}} if url else {"pip": {}}
        self.stand_in("pip", {"config list": config, "install --help": HELP, **report["pip"]})
        return self.hosts("pip")

    def test_npm_has_its_registry_and_those_of_scopes(self):
        told = self.npm({"registry": "https://mirror.example/npm/", "@a:registry": "http://127.0.0.1:4873/", "other": "https://no.example"},
                        "https://mirror.example/npm/-/npm-11.tgz")
        self.assertEqual(told[:2], ("mirror.example:443,127.0.0.1:4873", 0))
        self.assertIn("--egress-private 127.0.0.1:4873", told[2])

    def test_npm_replaces_the_host_of_packages_unless_it_is_told_not_to(self):
        registry = {"registry": "https://mirror.example/"}
        own = "https://registry.npmjs.org/npm/-/npm-11.tgz"
        self.assertEqual(self.npm(registry, own)[0], "mirror.example:443")
        self.assertEqual(self.npm({**registry, "replace-registry-host": "never"}, own)[0], "mirror.example:443,registry.npmjs.org:443")
        self.assertEqual(self.npm(registry, "https://files.example/npm-11.tgz")[0], "mirror.example:443,files.example:443")
        self.assertEqual(self.npm({**registry, "replace-registry-host": "always"}, "https://files.example/npm-11.tgz")[0], "mirror.example:443")

    def test_pip_has_its_index_and_where_packages_lie(self):
        self.assertEqual(self.pip("", "https://files.example/pip.whl")[:2], ("index.example:443,files.example:443", 0))
        self.assertEqual(self.pip("global.index-url='http://[::1]:3141/root'\nglobal.extra-index-url='https://user:word@more.example/a\\nhttps://most.example:8443'")[0],
                         "more.example:443,most.example:8443,[::1]:3141")
        self.assertEqual(self.pip("global.index-url='https://one.example'\n:env:.index-url='https://two.example'")[0], "two.example:443")
        self.assertEqual(self.pip("global.no-index='1'\n:env:.find-links='/opt/wheels https://links.example/'")[0], "links.example:443")

    def test_without_a_host_it_fails_and_says_so(self):
        told = self.pip("global.no-index='1'")
        self.assertEqual(told[:2], ("", 1))
        self.assertIn("no host", told[2])
        self.assertEqual(self.hosts("cargo")[1], 2)


unittest.main(verbosity=0)
