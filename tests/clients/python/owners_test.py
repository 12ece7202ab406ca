"""A kept connection belongs to the process and the event loop that opened it. A stub answers each command with itself."""

import asyncio
import json
import os
import threading
import traceback
import unittest

import lab
from stub import Stub

from atoll_client import AsyncAtoll, Atoll, AtollConnectionError

BASE = "/v1/sandboxes/s1"
CALLS = 30


def echo(exchange):
    command = json.loads(exchange.body)["command"]
    return {"exitCode": 0, "signal": None, "timedOut": False, "truncated": {"stdout": False, "stderr": False}, "durationMs": 1,
            "stdout": command, "stderr": ""}  # fmt: skip


def in_child(body):
    """The pid of a forked process that runs `body`; its status is 0 where that raised nothing."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        body()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


class Owners(unittest.TestCase):
    def setUp(self):
        self.stub = Stub({f"POST {BASE}/exec": echo})
        self.addCleanup(self.stub.close)

    def check_calls(self, sandbox, name):
        for number in range(CALLS):
            command = f"{name} {number}"
            self.assertEqual(sandbox.exec(command).stdout, command)

    def assert_all_succeeded(self, pids):
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in pids], [0] * len(pids))

    def test_forked_processes_each_get_their_own_answers(self):
        client = Atoll(self.stub.url, api_key="key", timeout=20)
        self.addCleanup(client.close)
        sandbox = client.sandbox("s1")
        self.check_calls(sandbox, "before")
        pids = [in_child(lambda child=child: self.check_calls(sandbox, f"child {child}")) for child in range(6)]
        self.check_calls(sandbox, "parent")
        self.assert_all_succeeded(pids)

    def test_a_child_that_closes_the_client_ends_nothing_of_its_parent(self):
        client = Atoll(self.stub.url, api_key="key", timeout=20, retries=0)
        self.addCleanup(client.close)
        sandbox = client.sandbox("s1")
        self.check_calls(sandbox, "before")
        self.assert_all_succeeded([in_child(client.close)])
        # Without a connection that is still open, the one that must not be sent twice would fail here.
        self.check_calls(sandbox, "after")

    def test_a_fork_beside_busy_threads_does_not_stop_the_child(self):
        client = Atoll(self.stub.url, api_key="key", timeout=20)
        self.addCleanup(client.close)
        sandbox = client.sandbox("s1")
        threads = [threading.Thread(target=self.check_calls, args=(sandbox, f"thread {n}")) for n in range(4)]
        for thread in threads:
            thread.start()
        pids = [in_child(lambda child=child: self.check_calls(sandbox, f"child {child}")) for child in range(4)]
        for thread in threads:
            thread.join()
        self.assert_all_succeeded(pids)

    def test_a_connection_of_the_parent_is_refused_in_the_child(self):
        client = Atoll(self.stub.url, api_key="key", timeout=20)
        self.addCleanup(client.close)
        client.sandbox("s1").exec("before")
        connection = client._core._idle[-1][0]

        def child():
            self.assertTrue(connection.is_stale())
            with self.assertRaisesRegex(AtollConnectionError, "before a fork"):
                connection.read_some(1).send(None)

        self.assert_all_succeeded([in_child(child)])
        self.assertFalse(connection.is_stale())

    def test_an_asynchronous_client_serves_one_event_loop_after_another(self):
        client = AsyncAtoll(self.stub.url, api_key="key", timeout=20)

        async def call(name):
            return [(await client.sandbox("s1").exec(f"{name} {number}")).stdout for number in range(3)]

        for name in ("first", "second", "third"):
            self.assertEqual(asyncio.run(call(name)), [f"{name} {number}" for number in range(3)])
        asyncio.run(client.aclose())

    def test_event_loops_of_two_threads_share_a_client(self):
        client = AsyncAtoll(self.stub.url, api_key="key", timeout=20)
        wrong = []

        async def call(name):
            for number in range(CALLS):
                command = f"{name} {number}"
                if (await client.sandbox("s1").exec(command)).stdout != command:
                    wrong.append(command)

        done = []
        threads = [threading.Thread(target=lambda name=name: done.append(asyncio.run(call(name)))) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(lab.DEADLINE_SECONDS)
        self.assertEqual((len(done), wrong), (2, []))
        asyncio.run(client.aclose())

    def test_a_forked_process_goes_on_with_an_asynchronous_client(self):
        client = AsyncAtoll(self.stub.url, api_key="key", timeout=20)

        async def call(name):
            command = f"{name} 1"
            assert (await client.sandbox("s1").exec(command)).stdout == command

        async def before_and_fork():
            await call("before")
            return client._core._idle[-1][0]

        connection = asyncio.run(before_and_fork())
        self.assert_all_succeeded([in_child(lambda: asyncio.run(call("child"))) for _ in range(3)])
        asyncio.run(call("after"))
        self.assertTrue(connection._is_foreign())
        asyncio.run(client.aclose())


if __name__ == "__main__":
    unittest.main()
