"""Conversations by the Python client against a real server: the blocking client, and the asynchronous one."""

import asyncio
import json
import shutil
import ssl
import tempfile
import threading
import unittest
from pathlib import Path

from lab import DEADLINE_SECONDS, InThread, Proxy, Server, make_certificate

from atoll_client import AsyncAtoll, Atoll, AtollConnectionError, AtollError

# Output that goes on until the turn is interrupted, each line by itself.
COUNT = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done"

# Some 100 events of 130 bytes.
LINES = "for i in $(seq 100); do echo line $i; sleep 0.01; done"


def until_done(events):
    seen = []
    for event in events:
        seen.append(event)
        if event.type == "done":
            return seen
    raise AssertionError("the stream ended before the turn")


def numbers(events):
    return [event.seq for event in events]


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--egress-allow", "*", "--egress-group", "npm=registry.example.com")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def client(self, url=None, **more):
        if not more:
            more = {"api_key": self.server.key}
        client = Atoll(url or self.server.url, timeout=DEADLINE_SECONDS, **more)
        self.addCleanup(client.close)
        return client

    def proxy(self):
        proxy = Proxy(self.server.port)
        self.addCleanup(proxy.close)
        return proxy

    def assert_complete(self, conversation, seen, first=1):
        """Each event once, in order, and as the log has it."""
        self.assertEqual(numbers(seen), list(range(first, first + len(seen))))
        logged = {event.seq: event for event in conversation.events()}
        for event in seen:
            self.assertEqual(event, logged[event.seq])


class Conversations(WithServer):
    def test_a_turn_streams_its_events_up_to_done(self):
        conversation = self.client().conversations.create(agent="shell", title="A walk", metadata={"ticket": 17})
        events = list(conversation.send_stream("echo hello; echo more"))
        self.assertEqual(events[0].type, "turn_start")
        self.assertEqual(events[-1].type, "done")
        self.assertEqual("".join(event.text for event in events), "hello\nmore\n")
        self.assertEqual(conversation.info["title"], "A walk")

    def test_send_answers_at_once_and_a_repeated_key_starts_no_second_turn(self):
        conversation = self.client().conversations.create()
        turn = conversation.send("echo once", idempotency_key="k1")
        until_done(conversation.follow(turn.after))
        again = conversation.send("echo once", idempotency_key="k1")
        self.assertEqual(again.turn, turn.turn)
        self.assertEqual(sum(event.type == "turn_start" for event in conversation.events()), 1)

    def test_a_repeated_key_streams_the_same_turn_again(self):
        conversation = self.client().conversations.create()
        first = list(conversation.send_stream("echo once", idempotency_key="k2"))
        self.assertEqual(list(conversation.send_stream("echo once", idempotency_key="k2")), first)

    def test_a_question_is_asked_and_its_answer_joined_again_with_its_key(self):
        conversation = self.client().conversations.create()
        answer = conversation.ask("echo hello; exit 3", idempotency_key="k3")
        self.assertEqual((answer.text, answer.outcome, answer.exit_code, answer.errors), ("hello\n", "error", 3, []))
        self.assertEqual(conversation.ask("echo hello; exit 3", idempotency_key="k3"), answer)
        self.assertEqual(conversation.ask("true").outcome, "success")
        self.assertEqual([event.data["content"] for event in conversation.events(answer.after) if event.type == "turn_start"], ["true"])

    def test_events_are_read_over_many_pages(self):
        conversation = self.client().conversations.create()
        list(conversation.send_stream("echo page"))
        self.assertEqual(list(conversation.events(limit=2)), list(conversation.events()))

    def test_lists_go_over_all_pages_and_only_leave_what_fits(self):
        client = self.client()
        made = {client.conversations.create(user_id="lister", metadata={"n": n, "even": n % 2 == 0}).id for n in range(3)}
        found = [conversation.id for conversation in client.conversations.list(user_id="lister", limit=1)]
        self.assertEqual(len(found), 3)
        self.assertEqual(set(found), made)
        self.assertEqual(len(list(client.conversations.list(user_id="lister", metadata={"even": True}))), 2)
        self.assertEqual(len(list(client.conversations.list(user_id="lister", metadata={"n": 1}))), 1)

    def test_the_network_is_set_as_a_whole_and_told_in_its_normal_form(self):
        conversation = self.client().conversations.create(network="none")
        conversation.update(network={"mode": "egress", "allow": ["@npm", "API.example.com."]})
        network = conversation.info["network"]
        self.assertEqual((network["mode"], network["allow"]), ("egress", ["@npm", "api.example.com"]))
        conversation.update(network={**network, "allow": ["*.example.org:443"]})
        with self.assertRaises(AtollError) as refused:
            conversation.update(network={"mode": "egress", "allow": ["@none"]})
        self.assertEqual(refused.exception.code, "invalid_field")
        self.assertEqual(conversation.refresh()["network"]["allow"], ["*.example.org:443"])
        conversation.update(network="none")
        self.assertEqual(conversation.info["network"], "none")

    def test_an_update_changes_and_removes_members(self):
        client = self.client()
        conversation = client.conversations.create(title="old", metadata={"a": 1, "b": 2})
        conversation.update(title=None, metadata={"a": None, "c": 3})
        self.assertIsNone(conversation.refresh()["title"])
        self.assertEqual(client.conversations.get(conversation.id).info["metadata"], {"b": 2, "c": 3})

    def test_interrupt_ends_the_open_turn(self):
        conversation = self.client().conversations.create()
        stream = conversation.send_stream(COUNT)
        for event in stream:
            if event.text:
                break
        conversation.interrupt()
        self.assertEqual(list(stream)[-1].type, "done")
        with self.assertRaises(AtollError) as refused:
            conversation.interrupt()
        self.assertEqual((refused.exception.status, refused.exception.code), (409, "no_turn"))

    def test_pause_and_resume_keep_the_files(self):
        conversation = self.client().conversations.create()
        list(conversation.send_stream("echo kept > note"))
        self.assertEqual(conversation.pause().info["status"], "paused")
        self.assertEqual(conversation.resume().info["status"], "active")
        self.assertEqual("".join(event.text for event in conversation.send_stream("cat note")), "kept\n")

    def test_erasing_a_user_removes_all_and_says_how_much(self):
        client = self.client()
        ids = [client.conversations.create(user_id="gone").id for _ in range(2)]
        self.assertEqual(client.conversations.erase_user("gone")["conversations"], 2)
        for conversation_id in ids:
            with self.assertRaises(AtollError) as refused:
                client.conversations.get(conversation_id)
            self.assertEqual(refused.exception.code, "not_found")

    def test_a_secret_is_put_listed_and_deleted_and_never_comes_back(self):
        secrets = self.client().secrets
        made = secrets.put("MODEL_KEY", "sk-live-42424242", ["API.example.com"])
        self.assertEqual((made["name"], made["hosts"], made["userId"], made["usable"]), ("MODEL_KEY", ["api.example.com"], None, True))
        secrets.put("MODEL_KEY", "sk-live-43434343", ["a.example"], user_id="alice")
        self.assertEqual([secret["hosts"] for secret in secrets.list()], [["api.example.com"]])
        self.assertEqual(secrets.get("MODEL_KEY", user_id="alice")["hosts"], ["a.example"])
        self.assertNotIn("sk-live", repr([made, secrets.list(), secrets.get("MODEL_KEY")]))
        secrets.delete("MODEL_KEY")
        with self.assertRaises(AtollError) as refused:
            secrets.get("MODEL_KEY")
        self.assertEqual(refused.exception.code, "not_found")
        secrets.delete("MODEL_KEY", user_id="alice")
        self.assertEqual(secrets.list(user_id="alice"), [])

    def test_a_transcript_has_both_forms(self):
        conversation = self.client().conversations.create()
        list(conversation.send_stream("echo written"))
        self.assertIn("written", conversation.transcript())
        roles = [json.loads(line)["role"] for line in conversation.transcript("jsonl").splitlines()]
        self.assertEqual(roles[:2], ["user", "assistant"])

    def test_a_refusal_tells_what_is_wrong_and_where(self):
        with self.assertRaises(AtollError) as refused:
            self.client().conversations.create(limits={"memory": 5})
        error = refused.exception
        self.assertEqual((error.status, error.code, error.pointer), (422, "unknown_field", "/limits/memory"))
        self.assertTrue(error.request_id and error.detail)
        with self.assertRaises(AtollError) as refused:
            self.client(api_key="x" * 20).system()
        self.assertEqual(refused.exception.status, 401)

    def test_a_unix_socket_serves_as_well(self):
        conversation = self.client(self.server.unix_url).conversations.create()
        self.assertEqual("".join(event.text for event in conversation.send_stream("echo unix")), "unix\n")

    def test_no_server_is_a_connection_error(self):
        client = Atoll("http://127.0.0.1:1", api_key="x", retries=0)
        with self.assertRaises(AtollConnectionError) as failed:
            client.system()
        self.assertEqual((failed.exception.code, failed.exception.was_sent), ("connection_failed", False))


class Following(WithServer):
    def test_every_event_comes_once_over_connections_that_are_cut(self):
        conversation = self.client().conversations.create()
        proxy = self.proxy()
        proxy.cut_after = 3000  # each connection of the follower ends in the middle of an event
        conversation.send(LINES)
        seen = until_done(self.client(proxy.url).conversation(conversation.id).follow())
        self.assert_complete(conversation, seen)
        self.assertGreater(proxy.accepted, 2)

    def test_the_stream_of_a_turn_goes_on_after_a_cut(self):
        conversation = self.client().conversations.create()
        proxy = self.proxy()
        seen = []
        for event in self.client(proxy.url).conversation(conversation.id).send_stream("echo a; read -t 0.3 < <(tail -f /dev/null); echo b"):
            seen.append(event)
            if event.text == "a\n":
                proxy.cut()
        self.assertEqual([event.type for event in seen].count("turn_start"), 1)
        self.assertEqual("".join(event.text for event in seen), "a\nb\n")
        self.assert_complete(conversation, seen, seen[0].seq)

    def test_a_conversation_that_is_deleted_ends_the_iterator(self):
        conversation = self.client().conversations.create()
        stream = conversation.follow()
        next(stream)
        conversation.delete()
        self.assertIn("sandbox_ready", [event.type for event in stream])

    def test_a_conversation_that_never_was_is_an_error(self):
        with self.assertRaises(AtollError) as refused:
            next(self.client().conversation("a" * 20).follow())
        self.assertEqual(refused.exception.status, 404)

    def test_tokens_are_renewed_and_no_event_is_lost(self):
        conversation = self.client().conversations.create()
        made = []

        def renew():
            made.append(conversation.create_token("read", ttl_seconds=1).token)
            return made[-1]

        turn = conversation.send(COUNT)
        seen = []
        stream = self.client(renew_token=renew).conversation(conversation.id).follow(turn.after)
        for event in stream:
            seen.append(event)
            if len(made) == 3 and event.text:
                break
        stream.close()
        conversation.interrupt()
        self.assert_complete(conversation, seen, turn.after + 1)

    def test_a_token_that_expires_without_a_callback_is_an_error(self):
        conversation = self.client().conversations.create()
        token = conversation.create_token("read", ttl_seconds=1).token
        with self.assertRaises(AtollError) as ended:
            list(self.client(token=token).conversation(conversation.id).follow())
        self.assertEqual(ended.exception.code, "token_expired")

    def test_closing_a_stream_closes_its_connection(self):
        client = self.client()
        conversation = client.conversations.create()
        with conversation.follow() as stream:
            next(stream)
        self.assertEqual(list(stream), [])


class Restarts(WithServer):
    def test_every_event_comes_once_over_a_server_that_is_killed(self):
        conversation = self.client().conversations.create()
        conversation.send(COUNT)
        seen = []
        restarting = None
        for event in self.client().conversation(conversation.id).follow():
            seen.append(event)
            if event.text and restarting is None:
                self.server.kill()
                restarting = InThread(self.server.restart)
            if event.type == "done":
                break
        restarting.result()
        self.assertIn("server_restart", [event.data.get("code") for event in seen])
        self.assert_complete(conversation, seen)

    def test_a_message_is_sent_again_to_a_server_that_comes_back(self):
        client = self.client()
        client._core._retries = 8
        conversation = client.conversations.create()
        self.server.kill()
        restarting = InThread(self.server.restart)
        turn = conversation.send("echo back")
        restarting.result()
        seen = until_done(conversation.follow(turn.after))
        self.assertEqual("".join(event.text for event in seen), "back\n")


    def test_a_command_that_the_end_of_a_server_interrupts_is_not_run_again(self):
        client = self.client()
        sandbox = client.conversations.create().sandbox()
        with sandbox.files.watch() as watch:
            next(watch)
            running = InThread(lambda: sandbox.exec("echo run >> runs; exec sleep 1000", timeout_ms=1_000_000))
            next(watch)
        self.server.terminate()
        self.server.restart()
        with self.assertRaises(AtollError):
            running.result()
        self.assertEqual(sandbox.files.read_text("runs"), "run\n")


class Asynchronous(WithServer):
    def async_client(self, url=None, **more):
        return AsyncAtoll(url or self.server.url, timeout=DEADLINE_SECONDS, **(more or {"api_key": self.server.key}))

    def run_async(self, coroutine):
        return asyncio.run(asyncio.wait_for(coroutine, DEADLINE_SECONDS))

    async def complete(self, conversation, seen, first=1):
        self.assertEqual(numbers(seen), list(range(first, first + len(seen))))
        logged = {event.seq: event async for event in conversation.events()}
        for event in seen:
            self.assertEqual(event, logged[event.seq])

    def test_conversations_do_all_that_they_do_in_the_blocking_client(self):
        async def body():
            async with self.async_client() as client:
                conversation = await client.conversations.create(user_id="async", title="t")
                events = [event async for event in conversation.send_stream("echo hello")]
                self.assertEqual("".join(event.text for event in events), "hello\n")
                self.assertEqual((await conversation.ask("echo asked")).text, "asked\n")
                turn = await conversation.send(COUNT)
                is_asked = False
                async with conversation.follow(turn.after) as stream:
                    async for event in stream:
                        if event.text and not is_asked:
                            is_asked = True
                            await conversation.interrupt()
                        if event.type == "done":
                            break
                self.assertEqual((await conversation.pause()).info["status"], "paused")
                self.assertEqual((await conversation.resume()).info["status"], "active")
                self.assertEqual((await conversation.update(title=None)).info["title"], None)
                self.assertIn("hello", await conversation.transcript())
                self.assertEqual([found.id async for found in client.conversations.list(user_id="async")], [conversation.id])
                self.assertEqual((await client.conversations.erase_user("async"))["conversations"], 1)

        self.run_async(body())

    def test_many_conversations_at_once_each_get_their_own_answers(self):
        async def one(client, number):
            conversation = await client.conversations.create()
            return "".join([event.text async for event in conversation.send_stream(f"echo {number}")])

        async def body():
            async with self.async_client() as client:
                return await asyncio.gather(*(one(client, number) for number in range(6)))

        self.assertEqual(self.run_async(body()), [f"{number}\n" for number in range(6)])

    def test_every_event_comes_once_over_connections_that_are_cut(self):
        proxy = self.proxy()
        proxy.cut_after = 3000

        async def body():
            async with self.async_client() as client, self.async_client(proxy.url) as cut:
                conversation = await client.conversations.create()
                await conversation.send(LINES)
                seen = []
                async with cut.conversation(conversation.id).follow() as stream:
                    async for event in stream:
                        seen.append(event)
                        if event.type == "done":
                            break
                await self.complete(conversation, seen)

        self.run_async(body())
        self.assertGreater(proxy.accepted, 2)

    def test_every_event_comes_once_over_a_server_that_is_killed(self):
        async def body():
            async with self.async_client() as client:
                conversation = await client.conversations.create()
                await conversation.send(COUNT)
                seen = []
                restarting = None
                async with conversation.follow() as stream:
                    async for event in stream:
                        seen.append(event)
                        if event.text and restarting is None:
                            self.server.kill()
                            restarting = InThread(self.server.restart)
                        if event.type == "done":
                            break
                restarting.result()
                await self.complete(conversation, seen)

        self.run_async(body())

    def test_a_coroutine_renews_tokens(self):
        async def body():
            async with self.async_client() as client:
                conversation = await client.conversations.create()
                made = []

                async def renew():
                    made.append((await conversation.create_token("read", ttl_seconds=1)).token)
                    return made[-1]

                turn = await conversation.send(COUNT)
                seen = []
                async with self.async_client(renew_token=renew).conversation(conversation.id).follow(turn.after) as stream:
                    async for event in stream:
                        seen.append(event)
                        if len(made) == 3 and event.text:
                            break
                await conversation.interrupt()
                await self.complete(conversation, seen, turn.after + 1)

        self.run_async(body())

    def test_a_task_that_is_cancelled_leaves_nothing_behind(self):
        async def body():
            async with self.async_client() as client:
                conversation = await client.conversations.create()
                reading = asyncio.ensure_future(_drain(conversation.follow()))
                await _until_open(conversation)
                # The last event and the cancellation come together.
                reading.cancel()
                ended, _ = await asyncio.wait({reading}, timeout=DEADLINE_SECONDS / 4)
                self.assertTrue(ended, "the cancellation was lost")
                with self.assertRaises(asyncio.CancelledError):
                    await reading
                self.assertEqual((await conversation.refresh())["status"], "active")

        self.run_async(body())


class Tls(unittest.TestCase):
    def test_https_is_spoken_and_certificates_are_checked(self):
        folder = Path(tempfile.mkdtemp(prefix="atoll-python-"))
        self.addCleanup(shutil.rmtree, folder)
        certificate, key = make_certificate(folder)
        server = Server("--tls-cert", certificate, "--tls-key", key)
        self.addCleanup(server.stop)
        url = server.url.replace("http:", "https:")
        trusting = ssl.create_default_context(cafile=certificate)

        with Atoll(url, api_key=server.key, ssl_context=trusting) as client:
            events = list(client.conversations.create().send_stream("echo tls"))
            self.assertEqual("".join(event.text for event in events), "tls\n")
            self.end_from_another_thread(client.conversations.create())

        async def body():
            async with AsyncAtoll(url, api_key=server.key, ssl_context=trusting) as client:
                conversation = await client.conversations.create()
                return "".join([event.text async for event in conversation.send_stream("echo tls")])

        self.assertEqual(asyncio.run(asyncio.wait_for(body(), DEADLINE_SECONDS)), "tls\n")
        with Atoll(url, api_key=server.key, retries=0) as client, self.assertRaises(AtollConnectionError) as refused:
            client.system()
        self.assertIn("certificate", str(refused.exception).lower())

    def end_from_another_thread(self, conversation):
        is_live = threading.Event()
        stream = conversation.follow(conversation.refresh()["lastSeq"], on_status=lambda status: is_live.set())
        reading = InThread(lambda: list(stream))
        self.assertTrue(is_live.wait(DEADLINE_SECONDS))
        stream.close()
        self.assertEqual(reading.result(), [])


async def _drain(stream):
    async with stream:
        async for _ in stream:
            pass


async def _until_open(conversation):
    """A turn has been: the follower beside it has had the time to connect."""
    async for _ in conversation.send_stream("true"):
        pass


if __name__ == "__main__":
    unittest.main()
