"""The Python client with a token and no key, against a real server: messages, interrupts, processes, files."""

import asyncio
import unittest

from lab import DEADLINE_SECONDS, Server

from atoll_client import AsyncAtoll, Atoll, AtollError


class WithTokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.backend = Atoll(cls.server.url, api_key=cls.server.key, timeout=DEADLINE_SECONDS)

    @classmethod
    def tearDownClass(cls):
        cls.backend.close()
        cls.server.stop()

    def setUp(self):
        self.made = self.backend.conversations.create()

    def page(self, scope="chat", client=Atoll):
        """A client that has no more than what a page is given."""
        return client(self.server.url, renew_token=lambda: self.made.create_token(scope).token, timeout=DEADLINE_SECONDS)

    def turns(self):
        return [event.data["content"] for event in self.made.events() if event.type == "turn_start"]


class Messages(WithTokens):
    def test_a_token_of_scope_chat_sends_and_interrupts(self):
        with self.page() as page:
            conversation = page.conversation(self.made.id)
            events = list(conversation.send_stream("echo alone"))
            self.assertEqual("".join(event.text for event in events), "alone\n")
            self.assertEqual([event.type for event in events if event.type in ("turn_start", "done")], ["turn_start", "done"])
            turn = conversation.send("echo begun; sleep 1000")
            with conversation.follow(turn.after) as stream:
                for event in stream:
                    self.assertEqual(event.turn, turn.turn)
                    if event.text == "begun\n":
                        conversation.interrupt()
                    if event.type == "done":
                        break
            with self.assertRaises(AtollError) as refused:
                conversation.interrupt()
            self.assertEqual(refused.exception.code, "no_turn")
        self.assertEqual(self.turns(), ["echo alone", "echo begun; sleep 1000"])

    def test_the_asynchronous_client_does_the_same(self):
        async def body():
            async with self.page(client=AsyncAtoll) as page:
                conversation = page.conversation(self.made.id)
                text = ""
                async for event in conversation.send_stream("echo begun; sleep 1000"):
                    text += event.text
                    if event.text == "begun\n":
                        await conversation.interrupt()
                return text

        self.assertEqual(asyncio.run(asyncio.wait_for(body(), DEADLINE_SECONDS)), "begun\n")

    def test_a_message_that_is_sent_again_with_its_key_starts_one_turn(self):
        with self.page() as page:
            conversation = page.conversation(self.made.id)
            turns = [conversation.send("echo once", idempotency_key="k1") for _ in range(2)]
            self.assertEqual(turns[0], turns[1])
            again = list(conversation.send_stream("echo once", idempotency_key="k1"))
        self.assertEqual("".join(event.text for event in again), "once\n")
        self.assertEqual(self.turns(), ["echo once"])

    def test_an_expired_token_is_renewed_and_one_for_something_else_is_refused(self):
        old = self.made.create_token("chat", ttl_seconds=1).token
        with Atoll(self.server.url, token=old) as page:
            with self.assertRaises(AtollError) as expired:
                list(page.conversation(self.made.id).follow())
            self.assertEqual(expired.exception.code, "token_expired")
            with self.assertRaises(AtollError) as expired:
                page.conversation(self.made.id).send("echo no")
            self.assertEqual(expired.exception.code, "token_expired")
        tokens = [old]

        def renew():
            tokens.append(self.made.create_token("chat").token)
            return tokens[-1]

        with Atoll(self.server.url, token=old, renew_token=renew) as page:
            self.assertEqual("".join(event.text for event in page.conversation(self.made.id).send_stream("echo new")), "new\n")
        self.assertEqual(len(tokens), 2)
        other = self.backend.conversations.create()
        with Atoll(self.server.url, token=other.create_token("chat").token) as page, self.assertRaises(AtollError) as refused:
            page.conversation(self.made.id).send("echo no")
        self.assertEqual(refused.exception.code, "token_mismatch")

    def test_a_token_for_reading_sends_nothing(self):
        with self.page(scope="read") as page, self.assertRaises(AtollError) as refused:
            page.conversation(self.made.id).send("echo no")
        self.assertEqual(refused.exception.code, "token_scope")
        self.assertEqual(self.turns(), [])


class Sandboxes(WithTokens):
    def test_a_sandbox_token_opens_what_its_scope_says(self):
        sandbox = self.made.sandbox()
        sandbox.files.write("note", "hello")
        token = sandbox.create_token("files", ttl_seconds=60)
        self.assertRegex(token.expires_at, r"^\d{4}-.*Z$")
        with Atoll(self.server.url, token=token.token) as page:
            self.assertEqual(page.sandbox(sandbox.id).files.read_text("note"), "hello")
            with self.assertRaises(AtollError) as refused:
                page.sandbox(sandbox.id).processes.start("true")
            self.assertIn(refused.exception.status, (401, 403))
        with Atoll(self.server.url, token=sandbox.create_token("terminal").token) as page:
            process = page.sandbox(sandbox.id).processes.start("echo seen")["processId"]
            with page.sandbox(sandbox.id).processes.attach(process) as attached:
                self.assertIn(b"seen\n", [frame.data for frame in attached])
        with self.assertRaises(TypeError):
            sandbox.create_token()

    def test_a_token_of_a_preview_has_the_address_that_a_browser_opens(self):
        with Atoll(self.server.url, api_key=self.server.key) as atoll:
            sandbox = atoll.sandboxes.create(preview={"access": "private", "ports": [3000]})
            info = sandbox.info()
            self.assertEqual(info["preview"], {"access": "private", "wake": True, "ports": [3000]})
            token = sandbox.create_token("preview")
            self.assertEqual(token.url, f"{info['sandboxPublicUrl']}.atoll/enter?token={token.token}")
            sandbox.delete()


if __name__ == "__main__":
    unittest.main()
