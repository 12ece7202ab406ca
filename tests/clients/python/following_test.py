"""Streams and repeated requests of the Python client where a real server is hard to bring to it: a stub stands in for it."""

import asyncio
import json
import selectors
import threading
import unittest
from unittest import mock

import lab
from stub import Stub

from atoll_client import AsyncAtoll, Atoll, AtollConnectionError, AtollError, Turn, blocking, retry

CHAT = "/v1/conversations/c1"
SANDBOX = "/v1/sandboxes/s1"
EXPIRED = {"type": "stream_closed", "code": "token_expired", "detail": "d", "after": 0}


def event(seq, kind="text_delta", turn="t1", **data):
    return {"seq": seq, "type": kind, "at": "", "turn": turn, "data": data}


def refuse(status, code, **fields):
    return lambda exchange: exchange.send(status, {"code": code, "detail": "d"}, "application/problem+json", **fields)


def events(*frames, epoch="e1"):
    """An answer: these frames, those with a seq under an id."""
    return lambda exchange: exchange.send_events(*frames, epoch=epoch)


def drop(exchange):
    exchange.close_connection = True


class Rounds:
    """An answer for each request in turn; the last one for all that follow. `cursors` has the `after` of each."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.cursors = []
        self.tokens = []

    def __call__(self, exchange):
        self.cursors.append(exchange.query.get("after"))
        self.tokens.append(exchange.query.get("token"))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer(exchange) if callable(answer) else answer


class WithStub(unittest.TestCase):
    def setUp(self):
        # No case waits for the time that passes.
        for name in ("FIRST_WAIT_S", "LONGEST_WAIT_S"):
            patch = mock.patch.object(retry, name, 0.001)
            patch.start()
            self.addCleanup(patch.stop)

    def client(self, answers, **more):
        self.stub = Stub(answers)
        self.addCleanup(self.stub.close)
        client = Atoll(self.stub.url, **(more or {"api_key": "key"}))
        self.addCleanup(client.close)
        return client

    def sent(self):
        return [name for name, *_ in self.stub.requests]


class Tokens(WithStub):
    def renewing(self, answers, renew):
        return self.client(answers, renew_token=renew).conversation("c1")

    def test_a_quiet_stream_outlives_any_number_of_tokens(self):
        made = iter(range(100))
        rounds = Rounds(*[events(EXPIRED)] * 9, events(event(1, "done")))
        stream = self.renewing({f"GET {CHAT}/events": rounds}, lambda: f"k{next(made)}").follow()
        self.assertEqual(next(stream).type, "done")
        self.assertEqual(rounds.tokens, [f"k{number}" for number in range(10)])

    def test_tokens_that_the_server_refuses_are_an_error_soon(self):
        rounds = Rounds(refuse(401, "token_expired"))
        with self.assertRaises(AtollError) as refused:
            next(self.renewing({f"GET {CHAT}/events": rounds}, lambda: "stale").follow())
        self.assertEqual(refused.exception.code, "token_expired")
        self.assertLess(len(rounds.tokens), 10)

    def test_a_backend_that_is_away_for_some_time_is_waited_for(self):
        answers = [OSError("away"), KeyError("user"), None, AtollError(503, "capacity"), AtollError(429, "too_many_requests"), "", AtollConnectionError("timeout"), OSError("away"), "k2"]
        given = iter(["k1", *answers])

        def renew():
            answer = next(given)
            if isinstance(answer, Exception):
                raise answer
            return answer

        rounds = Rounds(events(event(1), EXPIRED), events(event(2, "done")))
        stream = self.renewing({f"GET {CHAT}/events": rounds}, renew).follow()
        self.assertEqual([next(stream).seq, next(stream).seq], [1, 2])
        self.assertEqual((rounds.tokens, rounds.cursors), (["k1", "k2"], ["0", "1-e1"]))

    def test_a_refusal_in_the_callback_and_an_error_in_its_code_end_a_stream(self):
        answers = {f"GET {CHAT}/events": events(event(1), EXPIRED), f"GET {SANDBOX}": refuse(401, "token_expired")}
        for failure in (AtollError(401, "unauthorized"), AtollError(403, "token_scope"), AtollError(404, "not_found"), TypeError("no")):
            for count, begin in ((1, self.first_event_and_next), (0, lambda client: client.sandbox("s1").info())):
                given = iter(["k1"] * count)

                def renew():
                    for token in given:
                        return token
                    raise failure

                with self.assertRaises(type(failure)) as raised:
                    begin(self.client(answers, renew_token=renew))
                self.assertIs(raised.exception, failure)

    def first_event_and_next(self, client):
        with client.conversation("c1").follow(max_failures=5) as stream:
            self.assertEqual(next(stream).seq, 1)
            next(stream)

    def test_a_callback_that_fails_for_good_is_an_error_within_max_failures(self):
        def renew():
            raise OSError("away")

        client = self.client({}, renew_token=renew)
        for attempt in (lambda: next(client.conversation("c1").follow(max_failures=3)), client.sandbox("s1").info):
            with self.assertRaises(AtollError) as failed:
                attempt()
            self.assertEqual((failed.exception.code, type(failed.exception.__cause__)), ("no_token", OSError))
        self.assertEqual(self.stub.requests, [])

    def test_the_asynchronous_client_waits_for_its_backend_too(self):
        given = iter([OSError("away"), "k1"])

        async def renew():
            answer = next(given)
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def body():
            async with AsyncAtoll(self.stub.url, renew_token=renew) as client:
                async with client.conversation("c1").follow() as stream:
                    return (await stream.__anext__()).seq

        self.client({f"GET {CHAT}/events": events(event(1))})
        self.assertEqual(asyncio.run(asyncio.wait_for(body(), lab.DEADLINE_SECONDS)), 1)

    def test_with_a_token_messages_and_interrupts_are_posted(self):
        answers = {
            f"POST {CHAT}/messages": Rounds(drop, {"turn": "t1", "after": 7}),
            f"POST {CHAT}/interrupt": Rounds(lambda exchange: exchange.send(204, b""), drop),
        }
        conversation = self.client(answers, token="k").conversation("c1")
        self.assertEqual(conversation.send("hi"), Turn("t1", 7))
        (_, query, first, body), (_, _, second, again) = self.stub.requests
        self.assertEqual((query, body, first["Idempotency-Key"]), ({"token": "k"}, again, second["Idempotency-Key"]))
        conversation.interrupt()
        # Sent again, it might stop a later turn.
        with self.assertRaises(AtollError):
            conversation.interrupt()
        self.assertEqual(self.sent()[2:], [f"POST {CHAT}/interrupt"] * 2)


class Places(WithStub):
    """Where a stream goes on, and which log it is of."""

    def test_the_stream_of_a_turn_goes_on_behind_its_last_event_and_leaves_out_other_turns(self):
        rounds = Rounds(events(event(5), event(6, turn="t0"), event(7, "done", turn="t0"), event(8), epoch="e1"), events(event(9, "done")))
        post = Rounds(drop, events(event(3, "turn_start"), event(4)))
        conversation = self.client({f"POST {CHAT}/messages": post, f"GET {CHAT}/events": rounds}).conversation("c1")
        stream = conversation.send_stream("hi")
        self.assertEqual([each.seq for each in stream], [3, 4, 5, 8, 9])
        self.assertEqual((rounds.cursors, len(post.cursors), stream.after), (["4-e1", "8-e1"], 2, "9-e1"))

    def test_the_turn_of_a_log_that_was_replaced_is_an_error(self):
        closed = {"type": "stream_closed", "code": "log_replaced", "detail": "d", "after": 0, "logEpoch": "e2"}
        for answer in (refuse(410, "log_replaced"), events(closed), events(event(5), epoch="e2"), refuse(410, "seq_expired")):
            answers = {f"POST {CHAT}/messages": events(event(3, "turn_start")), f"GET {CHAT}/events": answer}
            stream = self.client(answers).conversation("c1").send_stream("hi")
            self.assertEqual(next(stream).seq, 3)
            with self.assertRaises(AtollError) as ended:
                next(stream)
            self.assertIn(ended.exception.code, ("log_replaced", "seq_expired"))
            self.assertEqual(self.sent(), [f"POST {CHAT}/messages", f"GET {CHAT}/events"])

    def test_what_comes_again_is_no_success(self):
        answers = {f"GET {CHAT}/events": events(event(1), event(2))}
        stream = self.client(answers).conversation("c1").follow("2-e1", max_failures=3)
        with self.assertRaises(AtollError) as ended:
            next(stream)
        self.assertEqual((ended.exception.code, len(self.stub.requests)), ("connection_lost", 4))

    def test_streams_and_events_tell_their_after(self):
        page = Rounds({"events": [event(1)], "next": 1, "logEpoch": "e1"}, {"events": [], "next": 1, "logEpoch": "e1"})
        conversation = self.client({f"GET {CHAT}/events": page}).conversation("c1")
        self.assertEqual([each.after for each in conversation.events()], ["1-e1"])
        rounds = Rounds(events(event(1, "session_start", logEpoch="e1")), events(event(2)), events(event(3)))
        stream = self.client({f"GET {CHAT}/events": rounds}).conversation("c1").follow()
        seen = [(stream.after, next(stream).after, stream.after) for _ in range(3)]
        self.assertEqual(seen, [("0", "1-e1", "1-e1"), ("1-e1", "2-e1", "2-e1"), ("2-e1", "3-e1", "3-e1")])
        self.assertEqual(rounds.cursors, ["0", "1-e1", "2-e1"])


class Told(WithStub):
    """The reports to a program of tries that fail."""

    def test_a_stream_tells_how_it_is_and_what_it_lacks(self):
        told = []
        rounds = Rounds(events(event(5)), refuse(503, "capacity", Retry_After="0"), refuse(410, "seq_expired"), events(event(8)), events(event(9)))
        conversation = self.client({f"GET {CHAT}/events": rounds}).conversation("c1")
        stream = conversation.follow(
            4, on_gap=lambda last, following: told.append((last, following)), on_status=lambda status: told.append((status.state, status.error and status.error.code))
        )
        with self.assertLogs("atoll_client", "INFO") as logged:
            self.assertEqual([next(stream).seq for _ in range(3)], [5, 8, 9])
        waits = [("waiting", code) for code in ("connection_lost", "capacity", "seq_expired", "connection_lost")]
        self.assertEqual(told, [("live", None), *waits[:3], ("live", None), (5, 8), waits[3], ("live", None)])
        self.assertEqual([record.levelname for record in logged.records], ["INFO", "WARNING", "WARNING", "INFO"])
        self.assertIn(f"{CHAT}/events: capacity: d; tried again in", logged.output[1])

    def test_a_client_tells_of_each_wait_for_another_try(self):
        told = []
        busy = refuse(503, "capacity", Retry_After="0")
        answers = {f"GET {SANDBOX}": Rounds(busy, drop, {"id": "s1"}), f"GET {CHAT}/events": Rounds(busy, events(event(1)))}
        client = self.client(answers, api_key="key", on_retry=lambda error, seconds: told.append((error.code, seconds >= 0)))
        with self.assertLogs("atoll_client", "WARNING"):
            client.sandbox("s1").info()
            next(client.conversation("c1").follow())
        self.assertEqual(told, [("capacity", True), ("connection_lost", True), ("capacity", True)])

    def test_a_server_that_is_not_there_is_told(self):
        told = []
        client = Atoll("http://127.0.0.1:1", api_key="key", on_retry=lambda error, _: told.append(error.code))
        self.addCleanup(client.close)
        with self.assertLogs("atoll_client", "WARNING"), self.assertRaises(AtollError):
            next(client.conversation("c1").follow(max_failures=2))
        self.assertEqual(told, ["connection_failed"] * 2)


class Answers(WithStub):
    def test_a_question_is_answered_over_a_break_with_the_same_key(self):
        post = Rounds(drop, events(event(3, "turn_start"), event(4, delta="a")))
        ending = [event(5, turn="t0", delta="no"), event(6, delta="b"), event(7, "turn_complete", result="success", exitCode=0), event(8, "done")]
        client = self.client({f"POST {CHAT}/messages": post, f"GET {CHAT}/events": events(*ending)})
        answer = client.conversation("c1").ask("hi", idempotency_key="k1")
        self.assertEqual((answer.turn, answer.text, answer.outcome, answer.exit_code, answer.errors), ("t1", "ab", "success", 0, []))
        self.assertEqual(answer.after, "8-e1")
        self.assertEqual([fields.get("Idempotency-Key") for _, _, fields, _ in self.stub.requests], ["k1", "k1", None])

    def test_a_turn_without_an_ending_of_the_agent_has_its_last_error_as_outcome(self):
        told = [event(1, "error", code="oom", message="m"), event(2, "error", code="agent_crashed", message="m"), event(3, "done")]
        answer = self.client({f"POST {CHAT}/messages": events(*told)}).conversation("c1").ask("hi")
        self.assertEqual((answer.outcome, answer.text, [error["code"] for error in answer.errors]), ("agent_crashed", "", ["oom", "agent_crashed"]))
        answer = self.client({f"POST {CHAT}/messages": events(event(1, "done"))}).conversation("c1").ask("hi")
        self.assertIsNone(answer.outcome)


class Repeats(WithStub):
    def test_what_the_end_of_a_server_interrupts_is_not_sent_again(self):
        def work(client):
            sandbox = client.sandbox("s1")
            return [
                lambda: sandbox.exec("rm note"),
                lambda: list(sandbox.exec_stream("rm note")),
                lambda: sandbox.tools.call("write_file", {}),
                lambda: sandbox.files.move("a", "b"),
                lambda: sandbox.files.copy("a", "b"),
                lambda: sandbox.processes.start("serve"),
                client.sandboxes.create,
            ]

        routes = ("exec", "files/a", "processes")
        for code, fields in (("shutting_down", {"Retry_After": "0"}), (None, {"Retry_After": "0"}), (None, {})):
            refusal = refuse(503, code, **fields)
            answers = {f"POST {SANDBOX}/{name}": refusal for name in routes}
            answers.update({"POST /v1/tools/write_file": refusal, "POST /v1/sandboxes": refusal})
            client = self.client(answers)
            for number, call in enumerate(work(client), 1):
                with self.assertRaises(AtollError) as ended:
                    call()
                self.assertEqual((ended.exception.code, len(self.stub.requests)), (code or "http_503", number))

    def test_what_cannot_take_effect_twice_is_sent_again_to_a_server_that_comes_back(self):
        for refusal in (refuse(503, "shutting_down", Retry_After="0"), refuse(502, None), refuse(504, None)):
            client = self.client({f"GET {SANDBOX}": Rounds(refusal, refusal, {"id": "s1"})})
            self.assertEqual(client.sandbox("s1").info(), {"id": "s1"})

    def test_an_answer_that_leads_elsewhere_is_an_error_that_says_where(self):
        def redirect(exchange):
            exchange.send(302, b"", "text/html", Location="https://login.example/")

        client = self.client({f"GET {SANDBOX}": redirect, f"GET {CHAT}/events": redirect})
        for call in (client.sandbox("s1").info, lambda: next(client.conversation("c1").follow())):
            with self.assertRaises(AtollError) as refused:
                call()
            self.assertEqual((refused.exception.status, refused.exception.code), (302, "http_302"))
            self.assertIn("https://login.example/", refused.exception.detail)


class Stops(WithStub):
    """A stream that waits in one thread is ended by another one."""

    def waiting(self, first=event(1)):
        """An answer that begins and then says nothing; `is_open` is set when it has begun."""
        self.is_open, self.is_over = threading.Event(), threading.Event()
        self.addCleanup(self.is_over.set)

        def answer(exchange):
            exchange.send_response(200)
            exchange.send_header("Content-Type", "text/event-stream")
            exchange.end_headers()
            exchange.wfile.write(b"data: " + json.dumps(first).encode() + b"\n\n")
            self.is_open.set()
            self.is_over.wait(lab.DEADLINE_SECONDS)

        return answer

    def ended(self, stream, end):
        """Checks that a thread that waits for the second event gets none once `end` was called."""
        seen = []
        reading = lab.InThread(lambda: [seen.append(each) for each in stream])
        self.assertTrue(self.is_open.wait(lab.DEADLINE_SECONDS))
        end()
        reading.result()
        self.assertLessEqual(len(seen), 1)
        self.assertEqual(list(stream), [])

    def test_a_stream_that_is_closed_ends_its_iteration(self):
        stream = self.client({f"GET {CHAT}/events": self.waiting()}).conversation("c1").follow()
        self.ended(stream, stream.close)

    def test_a_client_that_is_closed_ends_its_streams(self):
        client = self.client({f"GET {CHAT}/events": self.waiting()})
        self.ended(client.conversation("c1").follow(), client.close)
        with self.assertRaises(AtollError) as refused:
            client.conversation("c1").follow()
        self.assertEqual(refused.exception.code, "closed")

    def test_what_a_closed_client_cuts_short_is_an_error(self):
        frame = {"type": "stdout", "text": "a"}
        calls = [
            (lambda client: client.sandbox("s1").exec_stream("ls"), f"POST {SANDBOX}/exec"),
            (lambda client: client.sandbox("s1").files.stream("a"), f"GET {SANDBOX}/files/a"),
            (lambda client: client.conversation("c1").send_stream("hi"), f"POST {CHAT}/messages"),
            (lambda client: client.execution("e1").follow(), "GET /v1/executions/e1/events"),
        ]
        for begin, route in calls:
            client = self.client({route: self.waiting(frame if route.endswith("/exec") else event(1))})
            stream = begin(client)
            reading = lab.InThread(lambda: list(stream))
            self.assertTrue(self.is_open.wait(lab.DEADLINE_SECONDS))
            client.close()
            for attempt in (reading.result, lambda: next(stream)):
                with self.assertRaises(AtollError) as ended:
                    attempt()
                self.assertEqual(ended.exception.code, "closed")
        client = self.client({"GET /v1/conversations": {"conversations": [{"id": "c1"}], "next": "n"}})
        found = client.conversations.list()
        next(found)
        client.close()
        with self.assertRaises(AtollError) as ended:
            list(found)
        self.assertEqual(ended.exception.code, "closed")

    def test_a_list_that_was_read_stays_at_its_end_when_its_client_is_closed(self):
        client = self.client({"GET /v1/conversations": {"conversations": [], "next": None}})
        found, left = client.conversations.list(), client.conversations.list()
        self.assertEqual(list(found), [])
        left.close()
        client.close()
        self.assertEqual((list(found), list(left)), ([], []))

    def attached(self):
        """A process that says nothing."""
        is_over = threading.Event()
        self.addCleanup(is_over.set)

        def begins(exchange):
            exchange.upgrade()
            exchange.send_frame(1, {"type": "started", "pid": 7, "after": 0})
            is_over.wait(lab.DEADLINE_SECONDS)

        client = self.client({f"GET {SANDBOX}/processes/p1/ws": begins})
        return client, client.sandbox("s1").processes.attach("p1")

    def test_a_process_is_let_go_while_another_thread_writes(self):
        _, process = self.attached()
        # The lock stands for a thread that writes while the server takes no more.
        with process._inner._socket._connection._write_lock:
            lab.InThread(process.close).result()
        self.assertIsNone(process.exit)

    def test_a_closed_client_begins_nothing_and_lets_all_go_though_one_fails(self):
        class Failing:
            def end_with_client(self):
                raise OSError("no")

            close = end_with_client

        client, process = self.attached()
        failing = [Failing() for _ in range(8)]
        for one in failing:
            client._core.ends_with_me(one)
        with self.assertLogs("atoll_client", "WARNING"):
            client.close()
        for attempt in (lambda: list(process), lambda: client.sandbox("s1").processes.attach("p1"), client.conversations.list):
            with self.assertRaises(AtollError) as ended:
                attempt()
            self.assertEqual(ended.exception.code, "closed")

    def test_a_stream_that_waits_for_the_next_try_ends_at_once(self):
        self.is_open = threading.Event()

        def busy(exchange):
            self.is_open.set()
            return refuse(503, "capacity", Retry_After="3600")(exchange)

        stream = self.client({f"GET {CHAT}/events": busy}).conversation("c1").follow()
        self.ended(stream, stream.close)

    def test_a_process_is_attached_again_where_the_server_was_full_and_let_go_while_it_waits(self):
        self.is_open = threading.Event()

        def closes(exchange):
            exchange.upgrade()
            exchange.send_frame(1, {"type": "started", "pid": 7, "after": 0})
            exchange.send_frame(8, (1013).to_bytes(2, "big") + b'{"code":"capacity"}')
            exchange.receive_frame()

        def busy(exchange):
            self.is_open.set()
            return refuse(503, "capacity", Retry_After="3600")(exchange)

        for end in ("process", "client"):
            self.is_open.clear()
            client = self.client({f"GET {SANDBOX}/processes/p1/ws": Rounds(closes, busy)})
            process = client.sandbox("s1").processes.attach("p1")
            if end == "process":
                self.ended(process, process.close)
                continue
            with self.assertRaises(AtollError) as ended:
                self.ended(process, client.close)
            self.assertEqual(ended.exception.code, "closed")

    def test_a_stream_may_be_closed_by_what_it_calls(self):
        closed = {"type": "stream_closed", "code": "log_replaced", "detail": "d", "after": 0, "logEpoch": "e2"}
        answers = {f"GET {CHAT}/events": Rounds(events(event(6), closed), events(event(1)))}
        stream = self.client(answers).conversation("c1").follow("5-e1", on_reset=lambda: stream.close())
        self.assertEqual([each.seq for each in stream], [6])

    def test_a_machine_without_poll_does_the_same(self):
        with mock.patch.object(blocking, "_Selector", selectors.SelectSelector):
            self.test_a_stream_that_is_closed_ends_its_iteration()


class Times(WithStub):
    def test_each_call_takes_a_time_and_what_may_be_long_has_the_servers(self):
        seconds = []
        client = self.client({})

        def exchange(request):
            seconds.append(request.timeout)
            raise AtollError(404, "not_found")

        sandbox, chat = client.sandbox("s1"), client.conversation("c1")
        long_ones = [
            lambda **more: sandbox.files.copy("a", "b", **more),
            lambda **more: sandbox.files.move("a", "b", **more),
            lambda **more: sandbox.files.remove("a", recursive=True, **more),
            lambda **more: sandbox.files.unpack(b"", **more),
            lambda **more: sandbox.tools.call("glob", {}, **more),
            lambda **more: client.conversations.erase_user("u", **more),
        ]
        others = [
            lambda **more: sandbox.files.remove("a", **more),
            lambda **more: sandbox.files.read("a", **more),
            lambda **more: next(sandbox.files.stream("a", **more)),
            lambda **more: list(sandbox.files.list(**more)),
            lambda **more: sandbox.processes.start("a", **more),
            lambda **more: sandbox.processes.attach("a", **more),
            lambda **more: client.conversations.create(**more),
            lambda **more: client.conversations.update("c1", title=None, **more),
            lambda **more: list(client.conversations.list(**more)),
            lambda **more: chat.send("a", **more),
            lambda **more: chat.update(title=None, **more),
            lambda **more: list(chat.events(**more)),
            lambda **more: client.system(**more),
        ]
        streams = [
            lambda **more: next(chat.follow(**more)),
            lambda **more: client.execution("e1").result(**more),
            lambda **more: next(chat.send_stream("a", **more)),
            lambda **more: next(sandbox.exec_stream("a", **more)),
            lambda **more: next(sandbox.files.watch(**more)),
            lambda **more: next(sandbox.tools.stream("glob", {}, **more)),
        ]
        with mock.patch.object(client._core, "exchange", exchange):
            for calls, by_default in ((long_ones, 960.0), (others, None), (streams, 45.0)):
                for call in calls:
                    for more in ({}, {"timeout": 7.5}):
                        with self.assertRaises(AtollError):
                            call(**more)
                self.assertEqual(seconds, [by_default, 7.5] * len(calls))
                seconds.clear()

            async def start(method, path, **_):
                return {"processId": "p1"}

            with mock.patch.object(client._core, "call", start), self.assertRaises(AtollError):
                sandbox.terminal(timeout=7.5)
            self.assertEqual(seconds, [7.5])


if __name__ == "__main__":
    unittest.main()
