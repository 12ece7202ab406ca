"""The examples with the Python client, each run as a program.

Both use a real server. The model API that `model_loop.py` talks to is a fake.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from lab import DEADLINE_SECONDS, ROOT, InThread, Server
from stub import Stub

from atoll_client import Atoll

EXAMPLES = ROOT / "clients" / "examples"
TOOLS = ["list_directory", "read_file", "write_file", "replace", "search_file_content", "glob", "run_command"]


def start(name, environment, *arguments):
    return subprocess.Popen(
        [sys.executable, "-B", str(EXAMPLES / name), *arguments],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()


class Chat(WithServer):
    def start(self, *arguments):
        return start("chat.py", {"ATOLL_URL": self.server.url, "ATOLL_API_KEY": self.server.key}, *arguments)

    def run_chat(self, *arguments, text="", status=0):
        program = self.start(*arguments)
        out, errors = program.communicate(text, DEADLINE_SECONDS)
        self.assertEqual(program.returncode, status, errors)
        return out if status == 0 else errors

    def test_the_command_line_creates_sends_streams_and_follows(self):
        conversation = self.run_chat("create", "--agent", "shell").strip()
        self.assertEqual(self.run_chat("stream", conversation, "echo hello"), "hello\n")
        self.assertEqual(self.run_chat("talk", conversation, text="echo one\n\necho two\n"), "one\ntwo\n")
        follower = self.start("follow", conversation, "--after", "2")
        lines = InThread(lambda: self.read_until_done(follower, turns=4))
        self.assertIn("after", self.run_chat("send", conversation, "echo later"))
        events = lines.result()
        self.assertEqual([event["seq"] for event in events], list(range(3, 3 + len(events))))
        self.assertEqual("".join(event["data"].get("delta", "") for event in events), "hello\none\ntwo\nlater\n")

    def read_until_done(self, program, turns):
        events = []
        with program:
            while sum(event["type"] == "done" for event in events) < turns:
                events.append(json.loads(program.stdout.readline()))
            program.terminate()
        return events

    def test_the_program_of_the_quickstart_runs_as_it_stands_there(self):
        text = (ROOT / "docs" / "quickstart.md").read_text()
        (program,) = re.findall(r"```python\n(# tour\.py:.*?)```", text, re.S)
        printed = self.printed_by([sys.executable, "-B", "-c", program])
        wanted = ["hello", "A tour paused", "6 0", "created src/a.txt", "one", " 6", "copy", "copy/a.txt", "note", "src", "src/a.txt", "hello alice"]
        wanted += ["SIGTERM", "1 ended", "typed", "30 100", "7 True one"]
        self.assertEqual(re.sub(r"\n+", "\n", printed).split("\n"), [*wanted, ""])

    def test_the_programs_of_the_readme_run_as_they_stand_there(self):
        text = (ROOT / "README.md").read_text()
        (python,) = re.findall(r"```python\n(.*?)```", text, re.S)
        (javascript,) = re.findall(r"```js\n(.*?)```", text, re.S)
        client = (ROOT / "clients" / "js" / "src" / "index.js").as_uri()
        javascript = javascript.replace("'@atoll/client'", f"'{client}'")
        for command in ([sys.executable, "-B", "-c", python], ["node", "--input-type=module", "--eval", javascript]):
            with self.subTest(command[0]):
                listed, address = self.printed_by(command).rstrip().rsplit("\n", 1)
                self.assertIn("index.html", listed)
                self.assertRegex(address, r"^http://.*localhost.*/$")

    def test_the_first_program_of_the_clients_readme_runs_as_it_stands_there(self):
        program = re.findall(r"```python\n(.*?)```", (ROOT / "clients" / "python" / "README.md").read_text(), re.S)[0]
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(self.printed_by([sys.executable, "-B", "-c", program], folder).endswith(" note\nhello\n\n"))
            self.assertEqual(Path(folder, "copy", "note").read_text(), "hello\n")

    def printed_by(self, command, folder=None):
        done = subprocess.run(
            command,
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT / "clients" / "python"),
                "ATOLL_URL": self.server.url,
                "ATOLL_API_KEY": self.server.key,
            },
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_refusal_is_printed_in_words(self):
        self.assertIn("not_found", self.run_chat("stream", "a" * 20, "hi", status=2))


class FakeModel:
    """Asks for each tool in turn, one of them in vain, and keeps what it was told."""

    ASKS = [
        ("write_file", {"file_path": "a.txt", "content": "one"}),
        ("read_file", {"absolute_path": "/workspace/a.txt"}),
        ("replace", {"file_path": "a.txt", "old_string": "none", "new_string": "two"}),
        ("search_file_content", {"pattern": "one"}),
        ("glob", {"pattern": "*.txt"}),
        ("list_directory", {"path": "."}),
        ("run_command", {"command": "cat a.txt; exit 3"}),
    ]

    def __init__(self):
        self.told = []
        self.tools = []

    def answer(self, exchange):
        body = exchange.json()
        self.tools = [tool["name"] for tool in body["tools"]]
        rounds = sum(message["role"] == "assistant" for message in body["messages"])
        self.told += body["messages"][-1]["content"] if rounds else []
        if rounds == len(self.ASKS):
            return {"content": [{"type": "text", "text": "All is done."}], "stop_reason": "end_turn"}
        name, arguments = self.ASKS[rounds]
        text = {"type": "text", "text": f"Now {name}."}
        return {"content": [text, {"type": "tool_use", "id": f"c{rounds}", "name": name, "input": arguments}], "stop_reason": "tool_use"}


class ModelLoop(WithServer):
    def test_a_model_uses_the_tools_and_learns_of_failures(self):
        model = FakeModel()
        stub = Stub({"POST /model": model.answer})
        self.addCleanup(stub.close)
        environment = {"ATOLL_URL": self.server.url, "ATOLL_API_KEY": self.server.key, "MODEL_URL": f"{stub.url}/model"}
        program = start("model_loop.py", environment, "Write a file")
        out, errors = program.communicate(timeout=DEADLINE_SECONDS)
        self.assertEqual(program.returncode, 0, errors)
        self.assertEqual(out.splitlines()[-1], "All is done.")
        self.assertEqual(model.tools, TOOLS)
        self.assertEqual([told["is_error"] for told in model.told], [False, False, True, False, False, False, False])
        wrote, read, failed, found, named, listed, ran = (json.loads(told["content"]) for told in model.told)
        self.assertEqual((wrote["data"]["isNewFile"], read["data"]["content"]), (True, "one"))
        self.assertEqual(failed["technicalDetails"]["errorCode"], "STRING_NOT_FOUND")
        self.assertEqual((found["data"]["matchCount"], named["data"]["files"]), (1, ["/workspace/a.txt"]))
        self.assertEqual([entry["name"] for entry in listed["data"]["entries"]], ["a.txt"])
        self.assertEqual((ran["data"]["exitCode"], ran["data"]["stdout"]), (3, "one"))
        with Atoll(self.server.url, api_key=self.server.key) as client:
            self.assertEqual([info["status"] for info in client.sandboxes.list() if info["status"] == "ready"], [])


if __name__ == "__main__":
    unittest.main()
