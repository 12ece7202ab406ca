"""Code mode by the Python client against a real server, and, for connections that break, against the stub."""

import asyncio
import unittest
from unittest import mock

from lab import DEADLINE_SECONDS, InThread, Server
from stub import Stub

from atoll_client import AsyncAtoll, Atoll, AtollError, ExecutionCall, executions

ADD = {"name": "add", "description": "adds", "inputSchema": {"type": "array", "items": {"type": "number"}, "minItems": 2}}


def add(left, right):
    return left + right


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.client = Atoll(cls.server.url, api_key=cls.server.key, timeout=DEADLINE_SECONDS)
        cls.addClassCleanup(cls.server.stop)
        cls.addClassCleanup(cls.client.close)


class Programs(WithServer):
    def test_a_program_runs_to_its_end_and_its_failure_is_a_result(self):
        done = self.client.execute("print('hi')\nreturn [1, None]", language="python", timeout_ms=20_000, user_id="u")
        self.assertTrue(done.ok)
        self.assertEqual((done.result, done.logs[0]["text"], done.executor, done.calls), ([1, None], "hi", "python", []))
        failed = self.client.execute("\nraise ValueError('no')", executor="python")
        self.assertEqual((failed.ok, failed.error["kind"], failed.error["line"], failed.result), (False, "runtime", 2, None))
        with self.assertRaises(AtollError) as refused:
            self.client.execute("1", memory_mb=10**6)
        self.assertEqual(refused.exception.pointer, "/memoryMb")

    def test_handlers_answer_calls_and_an_exception_is_one_in_the_program(self):
        code = "a = await codemode.add(2, 3)\ntry:\n    await codemode.broken({'x': 1})\nexcept Exception as error:\n    print(error)\nreturn a"

        def broken(argument):
            raise KeyError(argument["x"])

        done = self.client.execute(code, handlers={"add": add, "broken": broken}, tools=[ADD], language="python")
        self.assertEqual((done.result, [call["status"] for call in done.calls]), (5, ["answered", "failed"]))
        self.assertEqual([log["text"] for log in done.logs], ["1"])
        left = self.client.execute("return await codemode.add(1, 2)", handlers={}, tools=[ADD], language="python")
        self.assertEqual((left.ok, "nobody answers add" in left.error["message"]), (False, True))
        odd = self.client.execute("return await codemode.odd()", handlers={"odd": object}, language="python")
        self.assertFalse(odd.ok)

    def test_a_decision_comes_before_the_call_of_a_tool_that_asks(self):
        asked = []

        def decide(call):
            asked.append(call)
            return call.args[0] == 1

        code = "a = await codemode.add(1, 2)\ntry:\n    await codemode.add(5, 6)\nexcept Exception:\n    return [a, 'refused']"
        tool = {**ADD, "policy": "ask"}
        done = self.client.execute(code, handlers={"add": add}, decide=decide, tools=[tool], language="python")
        self.assertEqual(done.result, [3, "refused"])
        self.assertEqual(asked[0], ExecutionCall("c1", "add", [1, 2], "ask", "caller"))
        undecided = self.client.execute("return await codemode.add(1, 2)", handlers={"add": add}, tools=[tool], language="python")
        self.assertEqual(undecided.error["kind"], "denied")

    def test_a_stream_tells_what_happens_as_it_happens(self):
        seen = []
        with self.client.execute_stream("console.log('a'); return await codemode.add(1, 2)", tools=[ADD]) as events:
            for event in events:
                seen.append(event.type)
                if event.type == "start":
                    execution = self.client.execution(event.data["executionId"])
                if event.type == "tool_call":
                    self.assertEqual(execution.refresh()["openCalls"], [{"callId": "c1", "name": "add", "status": "open"}])
                    execution.answer(event.data["callId"], 3)
                    with self.assertRaises(AtollError) as late:
                        execution.fail(event.data["callId"], "no")
                    self.assertIn(late.exception.code, ("call_answered", "execution_ended"))
                if event.type == "result":
                    self.assertEqual(event.data["result"], 3)
        self.assertEqual(seen, ["start", "log", "tool_call", "result", "done"])

    def test_a_detached_run_is_found_followed_answered_and_cancelled(self):
        execution = self.client.execute_detached("print(1)\nreturn await codemode.add(2, 3)", language="python", tools=[ADD], user_id="d")
        self.assertIn(execution.id, [found.id for found in self.client.executions.list(user_id="d", limit=1)])
        added = []

        def counted(left, right):
            added.append(left)
            return left + right

        self.assertEqual(execution.result(handlers={"add": counted}).result, 5)
        # Its end is there for whoever asks later, with a call that has its answer.
        again = self.client.executions.get(execution.id)
        self.assertEqual((again.info["status"], again.info["outcome"]["result"]), ("ended", 5))
        done = again.result(handlers={"add": counted})
        self.assertEqual((done.result, done.logs[0]["text"], added), (5, "1", [2]))
        types = [event.type for event in again.follow()]
        self.assertEqual([event.type for event in again.follow(after=2)], types[2:])
        self.assertEqual([list(again.follow(after=last, max_failures=3)) for last in (len(types), len(types) + 5)], [[], []])
        with Atoll(self.server.url, token=again.create_token("read", ttl_seconds=60).token) as page:
            self.assertEqual([event.type for event in page.execution(again.id).follow()], types)
            self.assertEqual(list(page.execution(again.id).follow(after=len(types), max_failures=3)), [])
        endless = self.client.execute_detached("while True: pass", language="python")
        endless.cancel()
        self.assertEqual(endless.result().error["kind"], "cancelled")

    def test_a_handler_of_a_tool_that_asks_is_called_when_somebody_has_allowed_it(self):
        code = "first = await codemode.add(1, 2)\ntry:\n    await codemode.add(5, 6)\nexcept Exception:\n    return first"
        execution = self.client.execute_detached(code, language="python", tools=[{**ADD, "policy": "ask"}])
        told = []

        def counted(left, right):
            told.append("called")
            return left + right

        def decide():
            for event in self.client.execution(execution.id).follow():
                if event.type == "tool_call":
                    told.append("decided")
                    execution.decide(event.data["callId"], event.data["args"][0] == 1)

        with mock.patch.object(executions, "DECISION_WAIT_S", 0.001):
            deciding = InThread(decide)
            self.assertEqual(execution.result(handlers={"add": counted}).result, 3)
            deciding.result()
        self.assertEqual(told, ["decided", "called", "decided"])

    def test_what_a_handler_gives_that_cannot_be_taken_is_an_exception_in_the_program(self):
        deep = []
        for _ in range(500):
            deep = [deep]

        def broken():
            raise ValueError("a \ud800 b")

        handlers = {"long": lambda: "x" * (1 << 20), "longer": lambda: "x" * (20 << 20), "deep": lambda: deep, "odd": lambda: "\ud800", "broken": broken}
        code = "\n".join(f"try:\n    await codemode.{name}()\nexcept Exception as error:\n    print(error)" for name in handlers)
        done = self.client.execute(code, handlers=handlers, language="python", timeout_ms=60_000)
        self.assertTrue(done.ok, done.error)
        texts = [log["text"] for log in done.logs]
        self.assertEqual(len(texts), len(handlers), texts)
        self.assertEqual(texts[-1], "a ? b")

    def test_engines_and_declarations_are_told(self):
        names = {executor["name"]: executor["available"] for executor in self.client.executions.executors()}
        self.assertTrue(names["python"])
        told = self.client.executions.prompt([ADD])
        self.assertIn("add", told)
        self.assertEqual(told.warnings, [])
        mail = {"name": "mail", "inputSchema": {"properties": {"to": {"type": "string", "pattern": "^(?!x)"}}}}
        self.assertEqual([(each["tool"], each["keyword"]) for each in self.client.executions.prompt([mail]).warnings], [("mail", "pattern")])


class InSandboxes(WithServer):
    def test_a_program_calls_the_tools_of_a_sandbox(self):
        sandbox = self.client.sandboxes.create()
        code = "await codemode.write_file({'file_path': 'a.txt', 'content': 'one'})\nreturn (await codemode.read_file({'absolute_path': 'a.txt'}))['data']['content']"
        self.assertEqual(sandbox.execute(code, language="python").result, "one")
        decided = []

        def decide(call):
            decided.append((call.name, call.answered_by))
            return True

        tools = [{"name": "write_file", "policy": "ask"}]
        self.assertEqual(sandbox.execute(code, decide=decide, tools=tools, language="python").result, "one")
        self.assertEqual(decided, [("write_file", "sandbox")])
        self.assertFalse(sandbox.execute(code, sandbox_tools="none", language="python").ok)
        sandbox.delete()

    def test_a_sandbox_without_a_conversation_is_changed(self):
        sandbox = self.client.sandboxes.create(ttl_seconds=600)
        changed = sandbox.update(ttlSeconds=900, limits={"maxProcesses": 32}, preview={"access": "private"})
        self.assertEqual((changed["limits"]["maxProcesses"], changed["preview"]["access"]), (32, "private"))
        self.assertEqual(changed["limits"], sandbox.info()["limits"])
        with self.assertRaises(AtollError) as refused:
            sandbox.update(colour="red")
        self.assertEqual(refused.exception.code, "unknown_field")
        sandbox.delete()


class Asynchronous(WithServer):
    def test_the_asynchronous_client_does_the_same_with_coroutines(self):
        async def slow_add(left, right):
            await asyncio.sleep(0)
            return left + right

        async def allow(call):
            await asyncio.sleep(0)
            return True

        async def body():
            async with AsyncAtoll(self.server.url, api_key=self.server.key, timeout=DEADLINE_SECONDS) as client:
                code, tools = "return await codemode.add(2, 3)", [{**ADD, "policy": "ask"}]
                done = await client.execute(code, {"add": slow_add}, allow, tools=tools, language="python")
                detached = await client.execute_detached(code, tools=tools, language="python")
                again = await detached.result({"add": slow_add}, allow)
                sandbox = await client.sandboxes.create()
                await sandbox.update(ttlSeconds=60)
                listed = await sandbox.execute("return (await codemode.glob({'pattern': '*'}))['success']", language="python")
                await sandbox.delete()
                found = [execution.id async for execution in client.executions.list()]
                return done.result, again.result, listed.result, detached.id in found

        self.assertEqual(asyncio.run(asyncio.wait_for(body(), DEADLINE_SECONDS)), (5, 5, True, True))


class Breaks(unittest.TestCase):
    EVENTS = [
        {"seq": 1, "type": "start", "at": "", "data": {"executionId": "e1", "executor": "python"}},
        {"seq": 2, "type": "tool_call", "at": "", "data": {"callId": "c1", "name": "add", "args": [1, 2], "policy": "allow", "answeredBy": "caller"}},
        {"seq": 3, "type": "result", "at": "", "data": {"result": 3, "calls": [], "durationMs": 1, "executor": "python"}},
        {"seq": 4, "type": "done", "at": "", "data": {}},
    ]

    def client(self, answers):
        self.stub = Stub(answers)
        self.addCleanup(self.stub.close)
        client = Atoll(self.stub.url, api_key="key")
        self.addCleanup(client.close)
        return client

    def test_a_run_that_breaks_off_is_an_error_and_not_begun_again(self):
        client = self.client({"POST /v1/execute": lambda exchange: exchange.send_events(*self.EVENTS[:1])})
        with self.assertRaises(AtollError) as ended:
            client.execute("1", handlers={})
        self.assertEqual((ended.exception.code, len(self.stub.requests)), ("connection_lost", 1))

    def test_a_detached_run_goes_on_behind_its_last_event_and_a_lost_answer_is_sent_again(self):
        def drop(exchange):
            exchange.close_connection = True

        def settled(exchange):
            exchange.send(409, {"code": "call_answered"}, "application/problem+json")

        cursors, said = [], [drop, settled]

        def follow(exchange):
            cursors.append(exchange.query["after"])
            at = int(cursors[-1])
            exchange.send_events(*self.EVENTS[at : at + 2])

        answers = {
            "GET /v1/executions/e1/events": follow,
            "GET /v1/executions/e1": {"status": "running", "lastSeq": 2, "openCalls": [{"callId": "c1", "name": "add", "status": "open"}]},
            "POST /v1/executions/e1/calls/c1": lambda exchange: said.pop(0)(exchange),
        }
        self.assertEqual(self.client(answers).execution("e1").result(handlers={"add": add}).result, 3)
        self.assertEqual((cursors, said), (["0", "2"], []))

    def test_a_quiet_stream_of_a_run_that_goes_on_is_followed_further(self):
        rounds = [[], self.EVENTS[2:]]

        def follow(exchange):
            if "text/event-stream" in exchange.headers["Accept"]:
                return exchange.send_events(*rounds.pop(0))
            return {"events": self.EVENTS[int(exchange.query["after"]) : 2], "next": 2}

        client = self.client({"GET /v1/executions/e1/events": follow})
        self.assertEqual([event.type for event in client.execution("e1").follow(after=2)], ["result", "done"])

    def test_a_decision_whose_answer_was_lost_is_followed_by_the_answer(self):
        said, states = [], ["asked"]

        def call(exchange):
            said.append(exchange.json())
            if len(said) == 1:
                states[0] = "open"
                exchange.close_connection = True
            elif len(said) == 2:
                exchange.send(409, {"code": "call_answered"}, "application/problem+json")
            else:
                exchange.send(200, {})

        asks = {**self.EVENTS[1], "data": {**self.EVENTS[1]["data"], "policy": "ask"}}
        events = [self.EVENTS[0], asks, *self.EVENTS[2:]]
        answers = {
            "POST /v1/execute": lambda exchange: exchange.send_events(*events),
            "GET /v1/executions/e1/events": lambda exchange: exchange.send_events(*events),
            "GET /v1/executions/e1": lambda _: {"status": "running", "lastSeq": 2, "openCalls": [{"callId": "c1", "name": "add", "status": states[0]}]},
            "POST /v1/executions/e1/calls/c1": call,
        }
        client = self.client(answers)
        for run in (lambda **more: client.execute("1", **more), client.execution("e1").result):
            said.clear()
            states[0] = "asked"
            self.assertEqual(run(handlers={"add": add}, decide=lambda call: True).result, 3)
            self.assertEqual(said, [{"decision": "allow"}, {"decision": "allow"}, {"result": 3}])


if __name__ == "__main__":
    unittest.main()
