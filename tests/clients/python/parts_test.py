"""The parts of the Python client that do no I/O: parsers of what a server sends, encoders, and when to try again."""

import copy
import io
import os
import pickle
import random
import tarfile
import tempfile
import typing
import unittest

import lab  # noqa: F401: makes the client importable

import atoll_client
from atoll_client import AsyncAtoll, Atoll, AtollConnectionError, AtollError, Execution, FileEntry, WebSocketClosed
from atoll_client.encoding import encode_path, from_json, parse_address, target, target_members
from atoll_client.errors import error_of_response, retry_after_seconds
from atoll_client.folders import extract
from atoll_client.frames import FrameDecoder, Opcode, encode_frame, handshake_answer
from atoll_client.http1 import BodyDecoder, HeadParser, encode_head
from atoll_client.retry import Backoff, Follower, Repeatable, Step, may_repeat
from atoll_client.sse import SseParser


def in_pieces(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


class Http(unittest.TestCase):
    ANSWER = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
    CHUNKS = b"3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"

    def decode(self, answer, size, method="GET"):
        parser, decoder, body = HeadParser(), None, b""
        for piece in in_pieces(answer, size):
            if decoder is None:
                found = parser.feed(piece)
                if found is None:
                    continue
                head, piece = found
                decoder = BodyDecoder(method, head)
            body += decoder.feed(piece)
        return head, body, decoder

    def test_a_chunked_answer_is_read_however_it_is_cut(self):
        for size in range(1, len(self.ANSWER + self.CHUNKS) + 1):
            head, body, decoder = self.decode(self.ANSWER + self.CHUNKS, size)
            self.assertEqual((head.status, head.headers["a"], body, decoder.is_done), (200, "1, 2", b"abc0123456789", True))

    def test_an_answer_that_ends_early_is_a_broken_connection(self):
        for answer in (self.ANSWER + self.CHUNKS[:-1], b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"):
            _, _, decoder = self.decode(answer, 7)
            with self.assertRaises(AtollConnectionError) as broken:
                decoder.feed_end()
            self.assertEqual(broken.exception.code, "connection_lost")

    def test_malformed_answers_are_refused(self):
        head = b"HTTP/1.1 200 OK\r\n"
        bad = [
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 2x0 OK\r\n\r\n",
            head + b"no colon\r\n\r\n",
            head + b"A : 1\r\n\r\n",
            head + b"Content-Length: -1\r\n\r\n",
            head + b"Content-Length: 3\r\n\r\nabcd",
            head + b"Transfer-Encoding: gzip\r\n\r\n",
            self.ANSWER + b"xyz\r\n",
            self.ANSWER + b"3\r\nabcd\r\n",
            self.ANSWER + b"1" * 2000,
            self.ANSWER + self.CHUNKS + b"more",
            head + b"A: " + b"a" * 70_000,
        ]
        for answer in bad:
            with self.assertRaises(AtollConnectionError, msg=answer[:60]) as refused:
                self.decode(answer, len(answer))
            self.assertEqual(refused.exception.code, "protocol_error")

    def test_answers_without_a_body_are_done_at_once(self):
        for method, status in (("HEAD", "200 OK"), ("GET", "204 No Content")):
            _, _, decoder = self.decode(f"HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n".encode(), 1000, method)
            self.assertTrue(decoder.is_done)

    def test_a_field_cannot_end_its_line(self):
        with self.assertRaises(ValueError):
            encode_head("GET", "/", {"Idempotency-Key": "a\r\nX: y"})


class Events(unittest.TestCase):
    TEXT = ': heartbeat\n\nid: 1\ndata: {"type":"a","x":"é"}\n\nevent: b\r\ndata: {"type":\r\ndata: "b"}\r\n\r\n'.encode()

    def test_frames_are_read_however_they_are_cut(self):
        for size in range(1, len(self.TEXT) + 1):
            parser = SseParser()
            frames = [frame for piece in in_pieces(self.TEXT, size) for frame in parser.feed(piece)]
            self.assertEqual(frames, [{"type": "a", "x": "é"}, {"type": "b"}])

    def test_frames_without_an_end_and_frames_that_are_no_events_are_refused(self):
        for text in (b"data: " + b"x" * 200, b"data: x\n" * 60, b"data: [1]\n\n", b"data: {}\n\n", b"data: {\n\n"):
            with self.assertRaises(AtollConnectionError):
                list(SseParser(max_frame_bytes=100).feed(text))


class Folders(unittest.TestCase):
    def unpack(self, *entries):
        """Gives the names and states of the entries that are below the folder after an archive of (name, type, link) was extracted."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, kind, link in entries:
                member = tarfile.TarInfo(name)
                member.type, member.linkname, member.mode = kind, link, 0o6755
                tar.addfile(member)
        archive.seek(0)
        with tempfile.TemporaryDirectory() as here:
            folder = os.path.join(here, "folder")
            try:
                extract(archive, folder)
            finally:
                self.assertEqual(os.listdir(here), ["folder"])
            return {name: os.lstat(os.path.join(folder, name)) for name in os.listdir(folder)}

    def test_nothing_is_written_outside_of_the_folder(self):
        for name in ("/tmp/x", "../x", "a/../../x"):
            with self.assertRaises(AtollError) as refused:
                self.unpack((name, tarfile.REGTYPE, ""))
            self.assertEqual(refused.exception.code, "invalid_archive")
        through = ("up", tarfile.SYMTYPE, ".."), ("up/x", tarfile.REGTYPE, "")
        with self.assertRaises(OSError):  # a folder of that name is made first, in which the file is
            self.unpack(*through)

    def test_links_that_lead_out_devices_and_setuid_are_left_out(self):
        chain = ("d", tarfile.DIRTYPE, ""), ("e", tarfile.SYMTYPE, "d/s/../x"), ("d/s", tarfile.SYMTYPE, "..")
        found = self.unpack(("out", tarfile.SYMTYPE, "/etc/passwd"), *chain, ("p", tarfile.FIFOTYPE, ""), ("f", tarfile.REGTYPE, ""))
        self.assertEqual(sorted(found), ["d", "f"])
        self.assertEqual(found["f"].st_mode & 0o7100, 0o100)


class Records(unittest.TestCase):
    def test_members_have_their_names_of_the_api_and_attributes_in_snake_case(self):
        info = from_json('{"statusReason":"paused","openPorts":[{"port":1}],"userId":null}')
        self.assertEqual((info.status_reason, info["statusReason"], info.open_ports[0].port, info.user_id), ("paused", "paused", 1, None))
        self.assertEqual(pickle.loads(pickle.dumps(info)), info)
        self.assertEqual(copy.deepcopy(info).status_reason, "paused")
        with self.assertRaises(AttributeError):
            info.statusreason


class Frames(unittest.TestCase):
    def test_the_handshake_of_rfc_6455_is_answered_as_there(self):
        self.assertEqual(handshake_answer("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")

    def test_messages_are_read_however_they_are_cut(self):
        text = b"\x01\x03Hel" + b"\x89\x00" + b"\x80\x02lo" + b"\x82\x7e\x01\x00" + bytes(256)
        for size in (1, 2, 3, 5, len(text)):
            decoder = FrameDecoder()
            messages = [message for piece in in_pieces(text, size) for message in decoder.feed(piece)]
            self.assertEqual(messages, [(Opcode.PING, b""), (Opcode.TEXT, b"Hello"), (Opcode.BINARY, bytes(256))])

    def test_malformed_frames_are_refused(self):
        too_long = b"\x82\x7f" + (1 << 40).to_bytes(8, "big")
        for text in (b"\xc1\x00", b"\x83\x00", b"\x81\x80", b"\x80\x00", b"\x01\x00\x81\x00", b"\x09\x00", b"\x89\x7e\x00\x7e", too_long):
            with self.assertRaises(AtollConnectionError, msg=text):
                list(FrameDecoder().feed(text))

    def test_frames_of_every_size_are_masked(self):
        for size in (0, 1, 125, 126, 65535, 65536):
            payload = random.Random(size).randbytes(size)
            frame = encode_frame(Opcode.BINARY, payload)
            start = {0: 2, 1: 4, 2: 10}[(size >= 126) + (size >= 65536)]
            self.assertTrue(frame[1] & 0x80)
            mask, masked = frame[start : start + 4], frame[start + 4 :]
            self.assertEqual(bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked)), payload)


class Encoding(unittest.TestCase):
    def test_paths(self):
        self.assertEqual(encode_path("a b/[id].tsx"), "a%20b/%5Bid%5D.tsx")
        self.assertEqual(encode_path("/workspace/../x"), "../x")
        self.assertEqual(encode_path("/workspace"), "")
        self.assertEqual(encode_path("/etc/passwd"), "/etc/passwd")
        self.assertEqual(encode_path("50%FF"), "50%25FF")
        self.assertEqual(encode_path("a\udcff"), "a%FF")
        self.assertEqual(target_members("50% 50%FF é"), {"to": "50% 50%FF é"})
        self.assertEqual(target_members("/workspace/a\udcff%41"), {"toHref": "a%FF%2541"})
        listed = FileEntry.parse({"path": "d/50%20\ufffd", "href": "d/50%2520%FF", "name": "50%20\ufffd"})
        self.assertEqual(encode_path(listed), "d/50%2520%FF")
        self.assertEqual(target_members(listed), {"toHref": "d/50%2520%FF"})
        self.assertEqual(target("", "/a", {"path": b"a\xff%41 "}), "/a?path=a%FF%2541+")

    def test_addresses(self):
        address = parse_address("https://[::1]:8443/atoll/")
        self.assertEqual((address.host, address.port, address.is_tls, address.prefix), ("::1", 8443, True, "/atoll"))
        self.assertEqual(address.host_field, "[::1]:8443")
        self.assertEqual(parse_address("http://atoll.example").host_field, "atoll.example")
        self.assertEqual(parse_address("unix:/run/atoll.sock").unix_path, "/run/atoll.sock")
        for wrong in ("", "atoll.example:4100", "ftp://a", "http://user:pass@a", "http://a?b", "unix:"):
            with self.assertRaises(ValueError, msg=wrong):
                parse_address(wrong)

    def test_what_a_client_gives_says_what_it_is_and_never_its_key(self):
        with Atoll("http://127.0.0.1:9/p", api_key="sk-live") as client:
            sandbox = client.sandbox("s1")
            shown = [client, sandbox, sandbox.files, sandbox.processes, client.execution("e1"), client.conversations, client.conversation("c1").follow(after=7)]
            kinds = ["Atoll http://127.0.0.1:9/p", "sandbox s1", "Files /v1/sandboxes/s1", "Processes /v1/sandboxes/s1/processes"]
            kinds += ["Execution /v1/executions/e1", "Conversations", "SyncEventStream after 7"]
            self.assertEqual([repr(each) for each in shown], [f"<{kind}>" for kind in kinds])
        self.assertEqual(repr(AsyncAtoll("unix:/run/atoll.sock", api_key="sk-live")), "<AsyncAtoll unix:/run/atoll.sock>")
        # Everything that is public says so.
        for name in atoll_client.__all__:
            each = getattr(atoll_client, name)
            if isinstance(each, type):
                self.assertIsNot(each.__repr__, object.__repr__, name)

    def test_queries(self):
        self.assertEqual(target("/p", "/v1", {"a": None, "b": True, "c": "x y&"}), "/p/v1?b=1&c=x+y%26")

    def test_errors(self):
        error = error_of_response(429, {"retry-after": "7", "x-request-id": "r"}, b'{"code":"too_many_requests","detail":"d","pointer":"/a"}')
        told = (error.status, error.code, error.detail, error.pointer, error.request_id, error.retry_after)
        self.assertEqual(told, (429, "too_many_requests", "d", "/a", "r", 7.0))
        self.assertEqual(error_of_response(502, {}, b"<html>").code, "http_502")
        self.assertEqual(retry_after_seconds("Mon, 01 Jan 2001 00:00:00 GMT"), 0.0)
        self.assertIsNone(retry_after_seconds("soon"))

    def test_errors_are_copied_and_pickled_whole(self):
        given = [
            AtollError(429, "too_many_requests", "d", "/a", "r", 7.0, "e1"),
            AtollConnectionError("timeout", "late", was_sent=False),
            WebSocketClosed(4410, '{"code":"log_replaced","detail":"d","logEpoch":"e2"}'),
        ]
        for error in given:
            for same in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
                self.assertIs(type(same), type(error))
                self.assertEqual((same.__dict__, same.args, str(same)), (error.__dict__, error.args, str(error)))


def event(seq):
    return {"seq": seq, "type": "text_delta", "at": "", "turn": None, "data": {}}


class Retrying(unittest.TestCase):
    def test_waits_grow_to_a_bound_and_differ(self):
        backoff = Backoff(random.Random(1))
        waits = [backoff.next_wait() for _ in range(12)]
        for wait, most in zip(waits, [0.5, 1, 2, 4, 8, 10, 10]):
            self.assertTrue(most / 2 <= wait <= most)
        self.assertEqual(len(set(waits)), len(waits))
        self.assertGreaterEqual(backoff.next_wait(retry_after=60), 60)
        backoff.succeeded()
        self.assertLessEqual(backoff.next_wait(), 0.5)

    def test_a_connection_that_stood_for_some_time_ends_a_row_of_failures(self):
        now = [0.0]
        follower = Follower(0, can_renew=False, max_failures=3, clock=lambda: now[0])
        for seconds, step in [(10, Step.RECONNECT)] * 20 + [(1, Step.RECONNECT)] * 2 + [(1, Step.RAISE)]:
            follower.opened()
            now[0] += seconds
            self.assertIs(follower.ended(AtollConnectionError("connection_lost")), step)

    def test_a_request_is_repeated_only_where_it_cannot_take_effect_twice(self):
        lost = AtollConnectionError("connection_lost")
        unsent = AtollConnectionError("connection_failed", was_sent=False)
        busy = AtollError(503, "capacity", retry_after=1)
        cases = [
            (lost, True, False, False),
            (unsent, True, True, True),
            (busy, True, True, False),
            (AtollError(503, "too_many_processes", retry_after=5), True, True, False),
            (AtollError(429, "too_many_streams", retry_after=5), True, True, False),
            (AtollError(503, "shutting_down", retry_after=5), True, False, False),
            (AtollError(503, "http_503", retry_after=5), True, False, False),
            (AtollError(502, "http_502"), True, False, False),
            (AtollError(0, "no_token"), True, True, True),
            (AtollError(502, "agent_failed"), False, False, False),
            (AtollError(503, "sandbox_failed"), False, False, False),
            (AtollError(429, "too_many_requests", retry_after=3600), False, False, False),
            (AtollError(429, "user_share", budget="places"), False, False, False),
            (AtollError(503, "capacity", budget="places"), False, False, False),
            (AtollError(429, "user_share", retry_after=1, budget="exec"), True, True, False),
            (AtollError(409, "turn_in_progress", retry_after=1), False, False, False),
            (AtollConnectionError("protocol_error"), False, False, False),
        ]
        for error, *expected in cases:
            self.assertEqual([may_repeat(kind, error) for kind in Repeatable], expected, msg=error)

    def test_a_follower_takes_each_number_once(self):
        follower = Follower(3, can_renew=False)
        self.assertEqual([follower.accept(event(seq)) is not None for seq in (2, 3, 4, 4, 5)], [False, False, True, False, True])

    def test_a_follower_goes_on_where_that_makes_sense(self):
        def step(error, can_renew=False, after=5, is_known=True, **more):
            follower = Follower(after, can_renew, **more)
            if is_known:
                follower.opened()
            return follower.ended(error)

        self.assertIs(step(AtollConnectionError("connection_lost")), Step.RECONNECT)
        self.assertIs(step(AtollError(0, "shutting_down")), Step.RECONNECT)
        self.assertIs(step(AtollError(503, "storage_failed")), Step.RECONNECT)
        self.assertIs(step(AtollError(429, "too_many_streams")), Step.RECONNECT)
        self.assertIs(step(AtollError(0, "conversation_ended")), Step.STOP)
        self.assertIs(step(AtollError(404, "not_found")), Step.STOP)
        self.assertIs(step(AtollError(404, "not_found"), is_known=False), Step.RAISE)
        self.assertIs(step(AtollError(403, "origin_not_allowed")), Step.RAISE)
        self.assertIs(step(AtollError(401, "token_expired")), Step.RAISE)
        self.assertIs(step(AtollError(401, "token_expired"), can_renew=True), Step.RENEW)
        self.assertIs(step(AtollConnectionError("connection_lost"), max_failures=0), Step.RAISE)

    def test_a_follower_whose_log_begins_later_starts_over_and_repeats_nothing(self):
        follower = Follower(5, can_renew=False)
        self.assertIs(follower.ended(AtollError(410, "seq_expired")), Step.RECONNECT)
        self.assertEqual(follower.after, 0)
        self.assertIsNotNone(follower.accept(event(9)))

    def test_a_follower_says_which_log_it_goes_on_with(self):
        follower = Follower("5-e1", can_renew=False)
        self.assertEqual(follower.cursor, "5-e1")
        follower.take_id("6-e1")
        follower.accept(event(6))
        self.assertEqual(follower.cursor, "6-e1")
        unsaid = Follower(5, can_renew=False)
        self.assertEqual(unsaid.cursor, "5")
        unsaid.take_id("6-e2")
        self.assertEqual(unsaid.cursor, "5-e2")
        self.assertEqual(Follower(0, can_renew=False).cursor, "0")

    def test_a_follower_whose_log_was_replaced_starts_over_where_its_user_hears_of_it(self):
        resets = []
        follower = Follower("5-e1", can_renew=False, on_reset=lambda: resets.append(1))
        self.assertIs(follower.ended(AtollError(0, "log_replaced", log_epoch="e2")), Step.RECONNECT)
        self.assertEqual((follower.cursor, resets), ("0", [1]))
        self.assertIsNotNone(follower.accept(event(1)))
        self.assertEqual(follower.cursor, "1-e2")
        self.assertIs(Follower("5-e1", can_renew=False).ended(AtollError(0, "log_replaced")), Step.RAISE)

    def test_a_callback_that_gives_bad_tokens_is_asked_a_few_times_only(self):
        follower = Follower(0, can_renew=True)
        steps = [follower.ended(AtollError(401, "unauthorized")) for _ in range(4)]
        self.assertEqual(steps, [Step.RENEW, Step.RENEW, Step.RENEW, Step.RAISE])
        follower.opened()
        self.assertIs(follower.ended(AtollError(0, "token_expired")), Step.RENEW)
        self.assertEqual(follower.wait_s, 0.0)

    def test_the_time_that_a_server_names_is_waited_for(self):
        follower = Follower(0, can_renew=False)
        follower.ended(AtollError(503, "capacity", retry_after=20))
        self.assertGreaterEqual(follower.wait_s, 20)

    def test_a_budget_that_waiting_does_not_free_ends_a_stream(self):
        follower = Follower(0, can_renew=False)
        self.assertIs(follower.ended(AtollError(429, "user_share", budget="places")), Step.RAISE)
        self.assertIs(follower.ended(AtollError(503, "capacity", budget="places")), Step.RAISE)
        self.assertIs(follower.ended(AtollError(429, "user_share", retry_after=1, budget="exec")), Step.RECONNECT)


class Types(unittest.TestCase):
    def test_the_types_of_code_mode_are_found_at_run_time(self):
        for kind in (Atoll, AsyncAtoll):
            for name in ("execute", "execute_stream", "execute_detached"):
                self.assertIn("options", typing.get_type_hints(getattr(kind, name)))
        self.assertIn("result", typing.get_type_hints(Execution.answer))


if __name__ == "__main__":
    unittest.main()
