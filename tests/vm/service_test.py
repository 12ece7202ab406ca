#!/usr/bin/env python3
"""scripts/systemd/atolld.service: systemd understands every line, and the lines that limits depend on are there."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

UNIT = Path(__file__).resolve().parents[2] / "scripts" / "systemd" / "atolld.service"


def settings():
    lines = (line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#"))
    return dict(lines)


class Service(unittest.TestCase):
    def test_limits_of_sandboxes_work(self):
        for name, value in (("Delegate", "yes"), ("OOMPolicy", "continue"), ("TasksMax", "infinity"), ("KillMode", "mixed")):
            self.assertEqual(settings().get(name), value, name)

    def test_the_server_has_time_to_end(self):
        self.assertGreaterEqual(int(settings()["TimeoutStopSec"]), 30)

    def test_a_socket_for_a_proxy_has_a_folder(self):
        self.assertEqual((settings().get("RuntimeDirectory"), settings().get("RuntimeDirectoryMode")), ("atoll", "0755"))

    def test_a_reload_signals_the_server_alone(self):
        self.assertEqual(settings().get("ExecReload"), "/bin/kill -HUP $MAINPID")

    def test_it_is_started_again_but_not_with_a_wrong_configuration(self):
        for name, value in (("Restart", "on-failure"), ("RestartPreventExitStatus", "2"), ("StartLimitIntervalSec", "0")):
            self.assertEqual(settings().get(name), value, name)

    def test_it_waits_for_the_addresses_that_it_may_listen_on(self):
        self.assertIn("network-online.target", settings()["After"].split())
        self.assertEqual(settings().get("Wants"), "network-online.target")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
    def test_systemd_understands_it(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, UNIT.name)
            # Where the program is to be is no concern of this host's.
            copy.write_text(UNIT.read_text().replace("/usr/local/lib/atoll/atolld", "/bin/true"))
            done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            # The control: systemd reports a line that it does not understand.
            copy.write_text(copy.read_text().replace("Delegate=", "Delegated="))
            self.assertIn("Delegated", subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True).stderr)


unittest.main()
