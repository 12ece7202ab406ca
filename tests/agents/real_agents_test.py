"""A coding agent from npm in conversations, by its shipped recipe: only the upstream of its routes is the fake model's.

The environment names the agent (ATOLL_AGENT), the folder with the packages of all (ATOLL_AGENTS) and that of atolld (ATOLL_BIN).
"""

import json
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path

from fake_models import Models
from lab import ROOT, Server, make_certificate

from atoll_client import Atoll

NAME = os.environ["ATOLL_AGENT"]
AGENTS = Path(os.environ["ATOLL_AGENTS"]).resolve()
HERE = Path(__file__).resolve().parent
# It only ends what hangs: an agent may unpack itself first, on a machine that has more to do.
STEP_SECONDS = 300
# They ask nobody: codex would wrap each command in a sandbox of its own.
UNASKED = {"codex"}
# The file of its session is named by the minute in which it began: a resume in that minute writes a new session over it.
NAMED_BY_MINUTE = {"gemini"}


def recipes(models):
    """Recipes of the installed agents, as scripts/setup writes them, with the fake model for an upstream."""
    made = []
    for path in sorted((ROOT / "scripts" / "agents").glob("*.json")):
        name = path.name[: -len(".json")]
        if "." in name or not (AGENTS / name / "node_modules").is_dir():
            continue
        recipe = json.loads(path.read_text())
        for route in recipe["routes"]:
            route["upstream"] = models.url
        made.append({**recipe, "dir": str(AGENTS / name), "startTimeoutSeconds": STEP_SECONDS})
    return made


def variables_of(made):
    """Keys for the routes, by the variables that hold them."""
    names = {header["env"] for recipe in made for route in recipe["routes"] for header in route["headers"].values()}
    return {name: "key-" + secrets.token_hex(16) for name in names}


class Turn:
    """A message and the events of its turn, as they come."""

    def __init__(self, conversation, content):
        self.events = []
        self._is_over = False
        self._error = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, args=(conversation, content), daemon=True)
        self._thread.start()

    def _follow(self, conversation, content):
        try:
            with conversation.send_stream(content) as events:
                for event in events:
                    with self._changed:
                        self.events.append(event)
                        self._changed.notify_all()
        except BaseException as error:  # told by whoever waits
            self._error = error
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def types(self, *chosen):
        return [event.type for event in self.events if not chosen or event.type in chosen]

    @property
    def text(self):
        return "".join(event.text for event in self.events)

    def first(self, kind):
        return next((event for event in self.events if event.type == kind), None)

    def wait_for(self, condition, what):
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._is_over, STEP_SECONDS)
            if not condition():
                raise AssertionError(f"no {what}: {self.describe()}")

    def wait_for_text(self, text):
        self.wait_for(lambda: text in self.text, f"text {text!r}")

    def end(self):
        self.wait_for(lambda: self._is_over, "end")
        if self._error is not None:
            raise self._error
        return self

    def describe(self):
        said = [(event.type, event.data) for event in self.events if event.type != "message"]
        return f"{said} {self._error or ''}"[-6000:]


class Agent(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="atoll-agents-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        certificate, key = make_certificate(Path(cls.folder))
        cls.models = Models(certificate, key)
        cls.addClassCleanup(cls.models.close)
        made = recipes(cls.models)
        cls.agents = [recipe["name"] for recipe in made]
        cls.recipe = next(recipe for recipe in made if recipe["name"] == NAME)
        cls.keys = variables_of(made)
        listed = Path(cls.folder) / "agents.json"
        listed.write_text(json.dumps({"agents": made}))
        cls.server = Server("--agents-file", str(listed), "--egress-private", f"127.0.0.1/32:{cls.models.port}", "--egress-ca", certificate,
                            variables=cls.keys)
        cls.addClassCleanup(cls.server.stop)
        cls.atoll = Atoll(cls.server.url, api_key=cls.server.key, timeout=STEP_SECONDS)
        cls.addClassCleanup(cls.atoll.close)

    def conversation(self, agent=NAME, **more):
        made = self.atoll.conversations.create(agent=agent, **more)
        self.addCleanup(made.delete)
        return made

    def say(self, conversation, content):
        """A turn that is over and went well."""
        turn = Turn(conversation, content).end()
        self.assert_good(turn)
        return turn

    def assert_good(self, turn):
        self.assertEqual(turn.types("error", "turn_complete", "done"), ["turn_complete", "done"], turn.describe())
        self.assertNotEqual(turn.first("turn_complete").data["result"], "interrupted", turn.describe())

    def assert_remembers(self, conversation, notes):
        turn = self.say(conversation, "model: remember")
        # The whole text: what an agent tells again of its past is no part of a turn.
        self.assertEqual(turn.text, "notes: " + ", ".join(notes), turn.describe())
        self.assertFalse(self.models.requests[-1].is_told)

    def write(self, conversation, name, text, kind):
        """A turn in which the agent writes a file; where it asks, it is answered with an option of this kind."""
        turn = Turn(conversation, f"model: write {name} {text}")
        if NAME not in UNASKED:
            turn.wait_for(lambda: turn.first("permission_request"), "permission_request")
            asked = turn.first("permission_request").data
            option = next(option for option in asked["options"] if option["kind"] == kind)
            conversation.permissions.answer(asked["id"], option["optionId"])
        return turn.end()

    def test_text_is_streamed(self):
        conversation = self.conversation()
        turn = Turn(conversation, "model: hold first second third")
        turn.wait_for_text("first")
        self.assertNotIn("second", turn.text)
        self.models.release()
        self.assert_good(turn.end())
        self.assertEqual(turn.text.split(), ["first", "second", "third"], turn.describe())

    def test_a_tool_writes_a_file_once_it_is_allowed(self):
        conversation = self.conversation()
        turn = self.write(conversation, "a.txt", "written by a tool", "allow_once")
        self.assert_good(turn)
        permission = [] if NAME in UNASKED else ["permission_request", "permission_resolved"]
        self.assertEqual(turn.types("tool_use", "permission_request", "permission_resolved", "tool_result"),
                         ["tool_use", *permission, "tool_result"], turn.describe())
        self.assertFalse(turn.first("tool_result").data["isError"], turn.describe())
        self.assertIn("the tool answered", turn.text)
        self.assertEqual(conversation.sandbox().files.read("a.txt").strip(), b"written by a tool")
        if permission:
            refused = self.write(conversation, "b.txt", "not written", "reject_once")
            self.assertTrue(refused.first("tool_result").data["isError"], refused.describe())
            self.assertEqual(refused.types("done"), ["done"])
            self.assertNotIn("b.txt", [entry.name for entry in conversation.sandbox().files.list()])

    def test_an_interrupt_ends_the_turn_and_not_the_agent(self):
        conversation = self.conversation()
        left = self.models.left
        turn = Turn(conversation, "model: hang")
        turn.wait_for_text("tick")
        conversation.interrupt()
        turn.end()
        self.assertEqual(turn.types("error", "turn_complete", "done"), ["turn_complete", "done"], turn.describe())
        self.assertEqual(turn.first("turn_complete").data["result"], "interrupted")
        self.assertTrue(self.models.wait_for(lambda: self.models.left > left, STEP_SECONDS), "the model is still asked")
        self.assertEqual(self.say(conversation, "model: say again").text.split(), ["again"])
        self.assertEqual(conversation.refresh().generation, 1)

    def test_its_memory_survives_a_pause_and_the_death_of_the_server(self):
        conversation = self.conversation()
        began = time.time()
        self.say(conversation, "model: note apple")
        if NAME in NAMED_BY_MINUTE:
            next_minute = 60 * (began // 60 + 1)
            threading.Event().wait(max(0, next_minute - time.time()))
        conversation.pause()
        self.assert_remembers(conversation, ["apple"])
        self.say(conversation, "model: note pear")
        turn = Turn(conversation, "model: hang")
        turn.wait_for_text("tick")
        self.server.kill()
        self.server.restart()
        turn.end()
        self.assertEqual(turn.types("done"), ["done"], turn.describe())
        self.assert_remembers(conversation, ["apple", "pear"])

    def test_two_agents_work_at_once(self):
        other = next((name for name in self.agents if name not in (NAME, "claude-acp")), NAME)
        turns = [Turn(self.conversation(agent), f"model: hold {agent} end") for agent in (NAME, other)]
        # Each has begun before either may go on.
        for turn, agent in zip(turns, (NAME, other)):
            turn.wait_for_text(agent)
        for _ in turns:
            self.models.release()
        for turn, agent in zip(turns, (NAME, other)):
            self.assert_good(turn.end())
            self.assertEqual(turn.text.split(), [agent, "end"], turn.describe())

    def test_the_key_comes_from_the_route_and_is_nowhere_inside(self):
        canary, word = "canary-" + secrets.token_hex(16), "word" + secrets.token_hex(8)
        conversation = self.conversation(env={"CANARY": canary})
        self.say(conversation, f"model: say {word}")
        (header, value), = self.recipe["routes"][0]["headers"].items()
        key = self.keys[value["env"]]
        sent = {name.lower(): text for name, text in self.models.requests[-1].headers.items()}
        self.assertEqual(sent[header], value.get("prefix", "") + key)
        sandbox = conversation.sandbox()
        sandbox.files.write("bait", b"text of a bait")
        needles = {"key": key, "canary": canary, "word": word, "bait": "text of a bait"}
        looked = sandbox.exec(["python3", "-c", (HERE / "find_needles.py").read_text()],
                              stdin=json.dumps({name: text.encode().hex() for name, text in needles.items()}), timeout_ms=1000 * STEP_SECONDS)
        self.assertEqual(looked.exit_code, 0, looked.stderr)
        found = json.loads(looked.stdout)
        self.assertEqual(found["key"], [])
        # The search finds what is there: in a file, in an environment and in the memory of a process.
        self.assertIn("/workspace/bait", found["bait"])
        self.assertTrue(any(place.endswith("/environ") for place in found["canary"]), found)
        self.assertTrue(any(place.endswith("/mem") for place in found["word"]), found)

    def test_the_network_is_closed_but_for_the_route(self):
        conversation = self.conversation()
        # By the proxy, the one way out: it refuses a host that no route and no rule names.
        ask = "import urllib.request as r; r.build_opener(r.ProxyHandler({'https': 'http://127.0.0.1:3128'})).open('https://example.com/')"
        refused = conversation.sandbox().exec(["python3", "-I", "-c", ask], timeout_ms=1000 * STEP_SECONDS)
        self.assertNotEqual(refused.exit_code, 0)
        self.assertIn("403", refused.stderr)
        # The host reaches the fake model, and what runs inside does not.
        socket.create_connection(("127.0.0.1", self.models.port), STEP_SECONDS).close()
        tried = conversation.sandbox().exec(f"exec 3<>/dev/tcp/127.0.0.1/{self.models.port}")
        self.assertNotEqual(tried.exit_code, 0)
        self.say(conversation, "model: say hello")
        routes = {event.data.get("route") for event in conversation.events() if event.type == "egress_closed"}
        self.assertTrue(routes)
        self.assertLessEqual(routes, {route["name"] for route in self.recipe["routes"]})
        self.assertEqual(self.models.others, [])


if __name__ == "__main__":
    unittest.main()
