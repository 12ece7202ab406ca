"""Decisions of a person in a conversation, on permissions of the agent and hosts of its sandbox, in the form in which the server takes them."""

import asyncio
import unittest

from stub import Stub

from atoll_client import AsyncAtoll, Atoll, AtollError

BASE = "/v1/conversations/c1"


def no_content(exchange):
    exchange.send(204, b"")


class Decisions(unittest.TestCase):
    def setUp(self):
        self.stub = Stub({f"POST {BASE}/permissions/t1.1": no_content, f"POST {BASE}/permissions/a%2Fb": no_content, f"POST {BASE}/egress/q1": no_content})
        self.addCleanup(self.stub.close)

    def sent(self):
        return [(name.split(BASE)[1], body) for name, _, _, body in self.stub.requests]

    def test_a_permission_is_answered_with_an_option_or_cancelled(self):
        client = Atoll(self.stub.url, api_key="key")
        self.addCleanup(client.close)
        conversation = client.conversation("c1")
        self.assertIsNone(conversation.permissions.answer("t1.1", "yes"))
        conversation.permissions.answer("a/b")
        conversation.decide_egress("q1", "once")
        self.assertEqual(self.sent(), [("/permissions/t1.1", b'{"optionId":"yes"}'), ("/permissions/a%2Fb", b'{"outcome":"cancelled"}'), ("/egress/q1", b'{"decision":"once"}')])
        with self.assertRaises(AtollError) as refused:
            conversation.permissions.answer("t1.2", "yes")
        self.assertEqual(refused.exception.code, "not_found")

    def test_the_asynchronous_client_does_the_same(self):
        async def run():
            async with AsyncAtoll(self.stub.url, api_key="key") as client:
                await client.conversation("c1").permissions.answer("t1.1", "yes")

        asyncio.run(run())
        self.assertEqual(self.sent(), [("/permissions/t1.1", b'{"optionId":"yes"}')])


if __name__ == "__main__":
    unittest.main()
