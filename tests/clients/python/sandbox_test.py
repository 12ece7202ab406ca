"""The sandbox's part of the Python client. A stub stands in for the routes of files and tools, and for servers that break off."""

import asyncio
import hashlib
import io
import tarfile
import tempfile
import tracemalloc
import unittest
from urllib.parse import unquote_to_bytes

import lab  # noqa: F401: makes the client importable
from stub import Stub

from atoll_client import AsyncAtoll, Atoll, AtollConnectionError, AtollError

BASE = "/v1/sandboxes/s1"
BIG_BYTES = 48 * 1024 * 1024
# The most memory that a client may use for a file that goes through it.
HELD_BYTES = 8 * 1024 * 1024
EXIT = {"exitCode": 3, "signal": None, "timedOut": False, "truncated": {"stdout": False, "stderr": False}, "durationMs": 4}


def reads_body(function):
    function.reads_body = True
    return function


class WithStub(unittest.TestCase):
    def sandbox(self, answers):
        self.stub = Stub(answers)
        self.addCleanup(self.stub.close)
        client = Atoll(self.stub.url, api_key="key", timeout=20)
        self.addCleanup(client.close)
        return client.sandbox("s1")

    def run_async(self, answers, body):
        """Runs `body(sandbox)` with the asynchronous client."""

        async def run():
            async with AsyncAtoll(self.stub.url, api_key="key", timeout=20) as client:
                return await body(client.sandbox("s1"))

        self.stub = Stub(answers)
        self.addCleanup(self.stub.close)
        return asyncio.run(asyncio.wait_for(run(), lab.DEADLINE_SECONDS))


class Exec(WithStub):
    def test_a_command_gives_its_exact_bytes_and_how_it_ended(self):
        answer = {**EXIT, "stdout": "é\n", "stderrBase64": "/w=="}
        sandbox = self.sandbox({f"POST {BASE}/exec": answer})
        result = sandbox.exec("ls", cwd="src", env={"A": "1"}, stdin=b"\xff", timeout_ms=500, max_output_bytes=9)
        self.assertEqual((result.exit_code, result.stdout, result.stderr_bytes, result.stderr), (3, "é\n", b"\xff", "\ufffd"))
        self.assertEqual(
            self.stub.requests[0][3],
            b'{"command":"ls","cwd":"src","env":{"A":"1"},"timeoutMs":500,"maxOutputBytes":9,"stdinBase64":"/w=="}',
        )

    def test_exactly_one_of_command_and_argv_is_taken(self):
        sandbox = self.sandbox({})
        for wrong in ({}, {"command": "a", "argv": ["a"]}):
            with self.assertRaises(ValueError):
                sandbox.exec(**wrong)

    def test_output_streams_up_to_the_exit(self):
        frames = [{"type": "stdout", "text": "a"}, {"type": "stderr", "base64": "/w=="}, {"type": "exit", **EXIT}]
        answers = {f"POST {BASE}/exec": lambda exchange: exchange.send_events(*frames)}
        pieces = list(self.sandbox(answers).exec_stream(argv=["ls", "-l"]))
        self.assertEqual([(piece.type, piece.data) for piece in pieces], [("stdout", b"a"), ("stderr", b"\xff"), ("exit", b"")])
        self.assertEqual(pieces[-1].result.exit_code, 3)
        self.assertEqual(self.stub.requests[0][3], b'{"argv":["ls","-l"]}')

    def test_a_stream_that_ends_early_is_an_error_and_the_command_is_not_run_again(self):
        ends = [[{"type": "stdout", "text": "a"}], [{"type": "stream_closed", "code": "sandbox_gone", "detail": "d"}]]
        sandbox = self.sandbox({f"POST {BASE}/exec": lambda exchange: exchange.send_events(*ends.pop(0))})
        with self.assertRaises(AtollConnectionError):
            list(sandbox.exec_stream("ls"))
        with self.assertRaises(AtollError) as ended:
            list(sandbox.exec_stream("ls"))
        self.assertEqual(ended.exception.code, "sandbox_gone")
        self.assertEqual(len(self.stub.requests), 2)

    def test_a_turn_that_cannot_begin_is_refused_at_once(self):
        problem = {"code": "agent_failed", "detail": "d"}
        stub = Stub({"POST /v1/conversations/c1/messages": lambda exchange: exchange.send(502, problem, "application/problem+json")})
        self.addCleanup(stub.close)
        with Atoll(stub.url, api_key="key") as client, self.assertRaises(AtollError) as refused:
            list(client.conversation("c1").send_stream("hi"))
        self.assertEqual((refused.exception.code, len(stub.requests)), ("agent_failed", 1))

    def test_a_broken_connection_does_not_run_a_command_twice(self):
        def drop(exchange):
            exchange.close_connection = True

        sandbox = self.sandbox({f"POST {BASE}/exec": drop})
        with self.assertRaises(AtollConnectionError):
            sandbox.exec("rm note")
        self.assertEqual(len(self.stub.requests), 1)

    def test_silence_is_a_timeout_and_a_cancelled_task_ends_at_once(self):
        self.stub = Stub({f"GET {BASE}": lambda exchange: exchange.rfile.read(1)})  # waits for the client to leave
        self.addCleanup(self.stub.close)
        with Atoll(self.stub.url, api_key="key", timeout=0.1, retries=0) as client:
            with self.assertRaises(AtollConnectionError) as late:
                client.sandbox("s1").info()
        self.assertEqual(late.exception.code, "timeout")

        async def body():
            async with AsyncAtoll(self.stub.url, api_key="key", timeout=0.1, retries=0) as client:
                with self.assertRaises(AtollConnectionError) as late:
                    await client.sandbox("s1").info()
                self.assertEqual(late.exception.code, "timeout")
            async with AsyncAtoll(self.stub.url, api_key="key") as client:
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.sandbox("s1").info(), 0.1)

        asyncio.run(asyncio.wait_for(body(), lab.DEADLINE_SECONDS))

    def test_a_refusal_is_tried_again_after_the_time_that_it_names(self):
        refusals = [("0", {"code": "too_many_processes"})] * 2

        def answer(exchange):
            if refusals:
                after, problem = refusals.pop()
                return exchange.send(503, problem, "application/problem+json", Retry_After=after)
            return {**EXIT, "stdout": "", "stderr": ""}

        self.assertEqual(self.sandbox({f"POST {BASE}/exec": answer}).exec("ls").exit_code, 3)
        self.assertEqual(len(self.stub.requests), 3)


class Files(WithStub):
    def test_names_are_encoded_and_an_entry_leads_to_its_bytes(self):
        entries = [{"path": "d/a\ufffd b%41", "href": "d/a%FF%20b%2541", "name": "a\ufffd b%41", "type": "file", "size": 1}]
        encoded = f"GET {BASE}/files/d/a%FF%20b%2541"
        sandbox = self.sandbox(
            {
                f"GET {BASE}/files/d": {"entries": entries, "next": None},
                encoded: lambda exchange: exchange.send(200, b"listed"),
                f"GET {BASE}/files/100%2541%3F%23%C3%A9": lambda exchange: exchange.send(200, b"plain"),
                f"GET {BASE}/files/%FF": lambda exchange: exchange.send(200, b"bytes"),
            }
        )
        (entry,) = sandbox.files.list("d")
        for path in (entry, unquote_to_bytes(entry.href)):
            self.assertEqual(sandbox.files.read(path), b"listed")
        self.assertEqual((entry.path, entry.name), ("d/a\ufffd b%41", "a\ufffd b%41"))
        self.assertEqual(sandbox.files.read_text("/workspace/100%41?#é"), "plain")
        self.assertEqual(sandbox.files.read(b"\xff"), b"bytes")

    def test_caches_and_histories_are_asked_for_with_all(self):
        nothing = io.BytesIO()
        tarfile.open(fileobj=nothing, mode="w").close()
        sandbox = self.sandbox(
            {
                f"GET {BASE}/files/": {"entries": [], "next": None},
                f"GET {BASE}/archive": lambda exchange: exchange.send(200, nothing.getvalue()),
                f"GET {BASE}/watch": lambda exchange: exchange.send_events({"type": "stream_closed", "code": "sandbox_gone"}),
            }
        )
        for options in ({}, {"all": False}, {"all": True}):
            before = len(self.stub.requests)
            list(sandbox.files.list(**options))
            sandbox.files.archive(io.BytesIO(), **options)
            list(sandbox.files.watch(**options))
            with tempfile.TemporaryDirectory() as local:
                sandbox.files.download_dir(None, local, **options)
            wanted = "1" if options.get("all") else None
            self.assertEqual([request[1].get("all") for request in self.stub.requests[before:]], 4 * [wanted])

    def test_lists_go_over_all_pages(self):
        def page(exchange):
            number = int(exchange.query.get("cursor", "0"))
            entry = {"path": f"f{number}", "name": f"f{number}", "type": "file", "size": number, "mode": "0644"}
            return {"entries": [entry], "next": str(number + 1) if number < 2 else None}

        sandbox = self.sandbox({f"GET {BASE}/files/": page})
        self.assertEqual([(entry.path, entry.size) for entry in sandbox.files.list(depth=2, limit=1)], [("f0", 0), ("f1", 1), ("f2", 2)])
        self.assertEqual(self.stub.requests[-1][1], {"list": "1", "depth": "2", "limit": "1", "cursor": "2"})

    def test_a_range_is_asked_for(self):
        sandbox = self.sandbox({f"GET {BASE}/files/f": lambda exchange: exchange.send(206, exchange.headers["Range"].encode())})
        self.assertEqual(sandbox.files.read("f", 2, 5), b"bytes=2-4")
        self.assertEqual(sandbox.files.read("f", 2), b"bytes=2-")
        self.assertEqual(sandbox.files.read("f", -3), b"bytes=-3")
        self.assertEqual(sandbox.files.read("f", end=1), b"bytes=0-0")

    def test_a_range_without_a_byte_is_empty_and_nonsense_is_refused(self):
        sandbox = self.sandbox({f"GET {BASE}/files/f": lambda exchange: exchange.send(200, b"all of it")})
        for start, end in ((None, 0), (0, 0), (3, 3), (5, 2)):
            self.assertEqual((sandbox.files.read("f", start, end), list(sandbox.files.stream("f", start, end))), (b"", []))
        for start, end in ((-3, 2), (-3, -1), (None, -1), (2, -1)):
            with self.assertRaises(ValueError):
                sandbox.files.read("f", start, end)
            with self.assertRaises(ValueError):
                sandbox.files.stream("f", start, end)
        self.assertEqual(self.stub.requests, [])

    def test_every_kind_of_source_arrives_whole(self):
        arrived = []

        def take(exchange):
            arrived.append((exchange.body, exchange.headers["Content-Length"]))
            return {"path": "f", "size": len(exchange.body)}

        sandbox = self.sandbox({f"PUT {BASE}/files/f": take})
        position = io.BytesIO(b"0123")
        position.seek(2)
        sandbox.files.write("f", "é", mode=0o755)
        self.assertEqual(sandbox.files.write("f", b"x" * 200_000).size, 200_000)
        sandbox.files.write("f", position)
        sandbox.files.write("f", (piece for piece in (b"a", b"", b"b")), if_none_match="*")
        self.assertEqual(arrived, [("é".encode(), "2"), (b"x" * 200_000, "200000"), (b"23", "2"), (b"ab", None)])
        self.assertEqual(self.stub.requests[0][1], {"mode": "0755"})
        self.assertEqual(self.stub.requests[3][2]["If-None-Match"], "*")

    def test_text_files_and_sources_that_end_early_are_errors(self):
        sandbox = self.sandbox({f"PUT {BASE}/files/f": {}})
        with tempfile.TemporaryFile("w+") as text:
            text.write("text")
            text.flush()
            text.seek(0)
            with self.assertRaises(TypeError):
                sandbox.files.write("f", text)

        class Shrinking(io.BytesIO):
            def read(self, size=-1):
                return super().read(min(size, 3)) if self.tell() < 6 else b""

        with self.assertRaises(AtollError) as short:
            sandbox.files.write("f", Shrinking(b"x" * 100))
        self.assertEqual(short.exception.code, "body_too_short")

    def big_answers(self):
        digest = hashlib.sha256()

        @reads_body
        def take(exchange):
            for piece in exchange.body_pieces():
                digest.update(piece)
            return {"path": "big", "etag": digest.hexdigest()}

        def give(exchange):
            exchange.send_response(200)
            exchange.send_header("Content-Length", str(BIG_BYTES))
            exchange.end_headers()
            piece = bytes(1 << 16)
            for _ in range(BIG_BYTES // len(piece)):
                exchange.wfile.write(piece)

        return {f"PUT {BASE}/files/big": take, f"GET {BASE}/files/big": give, f"GET {BASE}/archive": give, f"PUT {BASE}/archive": take}

    def big_file(self):
        file = tempfile.TemporaryFile()
        self.addCleanup(file.close)
        file.truncate(BIG_BYTES)
        return file

    def assert_little_held(self, action):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        action()
        self.assertLess(tracemalloc.get_traced_memory()[1], HELD_BYTES)
        tracemalloc.stop()

    def test_large_files_go_through_in_pieces(self):
        sandbox = self.sandbox(self.big_answers())
        expected = hashlib.sha256(bytes(BIG_BYTES)).hexdigest()
        results = []

        def action():
            results.append(sandbox.files.write("big", self.big_file()).etag)
            with tempfile.TemporaryFile() as to:
                results.append(sandbox.files.download("big", to))
                results.append(sandbox.files.archive(to))
                results.append(to.tell())

        self.assert_little_held(action)
        self.assertEqual(results, [expected, BIG_BYTES, BIG_BYTES, 2 * BIG_BYTES])
        sandbox.files.unpack(self.big_file())
        self.assertEqual(self.stub.requests[-1][2]["Content-Type"], "application/octet-stream")

    def test_large_files_go_through_the_asynchronous_client_in_pieces(self):
        async def body(sandbox):
            etag = (await sandbox.files.write("big", self.big_file())).etag
            with tempfile.TemporaryFile() as to:
                return etag, await sandbox.files.download("big", to)

        results = []
        answers = self.big_answers()
        self.assert_little_held(lambda: results.append(self.run_async(answers, body)))
        self.assertEqual(results, [(hashlib.sha256(bytes(BIG_BYTES)).hexdigest(), BIG_BYTES)])

    def refuse_early(self):
        @reads_body
        def refuse(exchange):
            exchange.close_connection = True
            exchange.send(507, {"code": "disk_full"}, "application/problem+json", Connection="close")

        return {f"PUT {BASE}/files/big": refuse}

    def test_a_refusal_in_the_middle_of_an_upload_is_told(self):
        sandbox = self.sandbox(self.refuse_early())
        with self.assertRaises(AtollError) as refused:
            sandbox.files.write("big", self.big_file())
        self.assertEqual((refused.exception.status, refused.exception.code), (507, "disk_full"))

    def test_a_refusal_in_the_middle_of_an_upload_is_told_to_the_asynchronous_client(self):
        with self.assertRaises(AtollError) as refused:
            self.run_async(self.refuse_early(), lambda sandbox: sandbox.files.write("big", self.big_file()))
        self.assertEqual(refused.exception.code, "disk_full")

    def test_files_are_made_moved_copied_looked_at_and_removed(self):
        entry = {"path": "a", "type": "directory"}
        sandbox = self.sandbox(
            {
                f"POST {BASE}/files/a": entry,
                f"GET {BASE}/files/a": entry,
                f"DELETE {BASE}/files/a": lambda exchange: exchange.send(204, b""),
            }
        )
        self.assertEqual(sandbox.files.mkdir("a").type, "directory")
        sandbox.files.move("a", "b%41")
        sandbox.files.copy("a", b"b\xff", overwrite=True)
        sandbox.files.move("a", b"b\xff%41")
        self.assertEqual(sandbox.files.stat("a").path, "a")
        sandbox.files.remove("a", recursive=True)
        self.assertEqual(
            [request[3] for request in self.stub.requests[:4]],
            [
                b'{"op":"mkdir"}',
                b'{"op":"move","to":"b%41"}',
                b'{"op":"copy","toHref":"b%FF","overwrite":true}',
                b'{"op":"move","toHref":"b%FF%2541"}',
            ],
        )
        self.assertEqual([request[1] for request in self.stub.requests[4:]], [{"stat": "1"}, {"recursive": "1"}])

    def test_a_change_tells_its_progress_where_that_is_asked_for(self):
        progress = {"type": "file_progress", "op": "copy", "entries": 3, "bytes": 7}
        copied = {"type": "file_result", "op": "copy", "status": 201, "result": {"path": "b", "type": "file"}}
        removed = {"type": "file_result", "op": "delete", "status": 204, "result": None}
        unpacked = {"type": "file_result", "op": "unpack", "status": 200, "result": {"entries": 3, "bytes": 7}}
        rounds = [[progress, copied], [progress, {"type": "error", "code": "disk_full", "detail": "d"}], [progress]]
        sandbox = self.sandbox(
            {
                f"POST {BASE}/files/a": lambda exchange: exchange.send_events(*rounds.pop(0)),
                f"DELETE {BASE}/files/a": lambda exchange: exchange.send_events(progress, removed),
                f"PUT {BASE}/archive": lambda exchange: exchange.send_events(progress, unpacked),
                f"PUT {BASE}/files/b": lambda exchange: exchange.send_events(progress, copied),
            }
        )
        told = []
        self.assertEqual(sandbox.files.copy("a", "b", on_progress=told.append).path, "b")
        self.assertIsNone(sandbox.files.remove("a", recursive=True, on_progress=told.append))
        self.assertEqual(sandbox.files.unpack(b"tar", on_progress=told.append), {"entries": 3, "bytes": 7})
        self.assertEqual(sandbox.files.write("b", b"text", on_progress=told.append).path, "b")
        self.assertEqual(told, 4 * [progress])
        for code in ("disk_full", "connection_lost"):
            with self.assertRaises(AtollError) as seen:
                sandbox.files.copy("a", "b", on_progress=told.append)
            self.assertEqual(seen.exception.code, code)

    def test_a_watch_goes_on_after_a_cut_and_says_that_changes_may_be_lost(self):
        changes = {"type": "changes", "changes": [{"change": "created", "path": "a", "directory": False}]}
        rounds = []
        sandbox = self.sandbox({f"GET {BASE}/watch": lambda exchange: exchange.send_events(*rounds.pop(0))})
        for code in ("sandbox_gone", "disk_full"):
            rounds = [[{"type": "started"}, changes], [{"type": "started"}, {"type": "stream_closed", "code": code}]]
            self.assertEqual([event["type"] for event in sandbox.files.watch("src", False)], ["started", "changes", "rescan"])
        self.assertEqual([request[1] for request in self.stub.requests], 4 * [{"path": "src", "recursive": "0"}])


class Tools(WithStub):
    def test_definitions_and_calls(self):
        result = {"success": False, "userFeedback": "no", "previewRefreshNeeded": False}
        sandbox = self.sandbox({"GET /v1/tools": {"format": "openai", "tools": [{"name": "glob"}]}, "POST /v1/tools/glob": result})
        self.assertEqual(sandbox.tools("openai"), [{"name": "glob"}])
        self.assertEqual(sandbox.tools.call("glob", {"pattern": "*"}, {"userId": "u"}), result)
        self.assertEqual(self.stub.requests[0][1], {"format": "openai", "sandboxId": "s1"})
        self.assertEqual(self.stub.requests[1][3], b'{"sandboxId":"s1","context":{"userId":"u"},"args":{"pattern":"*"}}')

    def test_a_stream_has_progress_and_the_result_and_one_that_breaks_off_is_an_error(self):
        progress = {"type": "tool_progress", "toolCallId": "c1", "toolName": "glob", "status": "running", "progress": None, "message": "9 files so far"}
        result = {"type": "tool_result", "toolCallId": "c1", "toolName": "glob", "result": {"success": True}}
        rounds = [[progress, result], [progress, {"type": "error", "code": "bridge_failed", "detail": "gone"}], [progress]]
        sandbox = self.sandbox({"POST /v1/tools/glob": lambda exchange: exchange.send_events(*rounds.pop(0))})
        self.assertEqual(list(sandbox.tools.stream("glob", {"pattern": "*"}, {"toolCallId": "c1"})), [progress, result])
        self.assertEqual(self.stub.requests[0][3], b'{"sandboxId":"s1","context":{"toolCallId":"c1"},"args":{"pattern":"*"}}')
        for code in ("bridge_failed", "connection_lost"):
            with self.assertRaises(AtollError) as seen:
                list(sandbox.tools.stream("glob", {"pattern": "*"}))
            self.assertEqual(seen.exception.code, code)


def shell(exchange):
    """A process that echoes its input in capitals; its first connection breaks after 3 bytes of output."""
    exchange.upgrade()
    after = int(exchange.query["after"])
    exchange.send_frame(1, {"type": "started", "pid": 7, "after": after, "pty": True})
    if after == 0:
        exchange.send_frame(2, b"\x01abc")
        return
    exchange.send_frame(9, b"are you there")
    assert exchange.receive_frame() == (10, b"are you there")
    # A message in parts, with a ping between them.
    exchange.send_frame(2, b"\x01d", 0)
    exchange.send_frame(9, b"")
    exchange.send_frame(0, b"ef")
    assert exchange.receive_frame() == (10, b"")
    exchange.send_frame(1, {"type": "dropped", "bytes": 10})
    opcode, payload = exchange.receive_frame()
    exchange.send_frame(2, b"\x02" + payload[1:].upper() + str(opcode).encode())
    for _ in range(3):
        exchange.server.frames.append(exchange.receive_frame())
    exchange.send_frame(1, {"type": "exit", "exitCode": 0})
    exchange.send_frame(8, b"\x03\xe8")
    exchange.receive_frame()


PROCESS = {"processId": "p1", "pid": 7}
PROCESS_ANSWERS = {
    f"POST {BASE}/processes": PROCESS,
    f"GET {BASE}/processes": {"processes": [PROCESS]},
    f"GET {BASE}/processes/p1": PROCESS,
    f"POST {BASE}/processes/p1/signal": {},
    f"POST {BASE}/processes/p1/stdin": {"bytes": 2},
    f"POST {BASE}/processes/p1/resize": {},
    f"GET {BASE}/processes/p1/ws": shell,
}
SEEN = [("started", b""), ("stdout", b"abc"), ("started", b""), ("stdout", b"def"), ("dropped", b""), ("stderr", b"HI2"), ("exit", b"")]
SENT = [(1, b'{"type": "resize", "cols": 10, "rows": 5}'), (1, b'{"type": "signal", "signal": "SIGINT"}'), (1, b'{"type": "eof"}')]


def writes(exchange):
    """The output of a process that wrote `ab`, a byte that is no text, and then 10 bytes that are not kept. The first connection breaks."""
    if exchange.query["after"] == "0":
        return exchange.send_events({"type": "started", "pid": 7, "after": 0, "pty": False}, {"type": "stdout", "text": "ab"})
    assert exchange.query["after"] == "2", exchange.query
    started = {"type": "started", "pid": 7, "after": 2, "pty": False}
    frames = [{"type": "stderr", "base64": "/w=="}, {"type": "dropped", "bytes": 10}, {"type": "stdout", "text": "c"}]
    exchange.send_events(started, *frames, {"type": "exit", "exitCode": 4, "signal": None, "timedOut": False, "after": 14})


WRITTEN = [("started", b""), ("stdout", b"ab"), ("started", b""), ("stderr", b"\xff"), ("dropped", b""), ("stdout", b"c"), ("exit", b"")]


def pages(exchange):
    if "text/event-stream" in exchange.headers["Accept"]:
        return writes(exchange)
    page = {"after": 3, "next": 15, "dropped": 9, "stdout": "é", "stderrBase64": "/w=="}
    return {**page, "exit": {"exitCode": 4}} if exchange.query["after"] == "3" else page


OUTPUT = {f"GET {BASE}/processes/p1/output": pages}


class ProcessOutputs(WithStub):
    def test_a_page_of_output_has_exact_bytes_and_the_place_of_the_next_one(self):
        processes = self.sandbox(OUTPUT).processes
        page = processes.output("p1")
        self.assertEqual((page.after, page.next, page.dropped, page.exit), (3, 15, 9, None))
        self.assertEqual((page.stdout, page.stderr_bytes, page.stderr), ("é", b"\xff", "\ufffd"))
        self.assertEqual(processes.output("p1", after=3).exit, {"exitCode": 4})
        self.assertEqual([request[1] for request in self.stub.requests], [{"after": "0"}, {"after": "3"}])

    def test_output_is_followed_over_a_connection_that_breaks_to_the_exit(self):
        processes = self.sandbox(OUTPUT).processes
        with processes.follow("p1") as frames:
            seen = list(frames)
        self.assertEqual([(frame.type, frame.data) for frame in seen], WRITTEN)
        self.assertEqual(seen[-1].info["exitCode"], 4)
        self.assertEqual([request[1] for request in self.stub.requests], [{"after": "0"}, {"after": "2"}])

    def test_the_asynchronous_client_reads_output_too(self):
        async def body(sandbox):
            async with sandbox.processes.follow("p1") as frames:
                seen = [(frame.type, frame.data) async for frame in frames]
            return (await sandbox.processes.output("p1")).stdout, seen

        self.assertEqual(self.run_async(OUTPUT, body), ("é", WRITTEN))

    def test_an_end_that_the_server_tells_is_an_error(self):
        closed = {"type": "stream_closed", "code": "sandbox_gone", "detail": "out of memory", "after": 0}
        answer = lambda exchange: exchange.send_events({"type": "started", "pid": 7, "after": 0, "pty": False}, closed)  # noqa: E731
        with self.assertRaises(AtollError) as ended:
            list(self.sandbox({f"GET {BASE}/processes/p1/output": answer}).processes.follow("p1"))
        self.assertEqual((ended.exception.code, ended.exception.detail), ("sandbox_gone", "out of memory"))
        self.assertEqual(len(self.stub.requests), 1)

    def test_a_process_that_is_not_there_is_not_asked_for_again(self):
        for ask in (lambda processes: processes.output("p1"), lambda processes: list(processes.follow("p1"))):
            with self.assertRaises(AtollError) as refused:
                ask(self.sandbox({}).processes)
            self.assertEqual(refused.exception.code, "not_found")
            self.assertEqual(len(self.stub.requests), 1)


class Processes(WithStub):
    def test_processes_are_started_listed_and_fed(self):
        processes = self.sandbox(PROCESS_ANSWERS).processes
        self.assertEqual(processes.start("npm run dev", tag="dev", restart="generation")["processId"], "p1")
        self.assertEqual((processes.list(), processes.get("p1")), ([PROCESS], PROCESS))
        processes.signal("p1", "SIGTERM")
        self.assertEqual(processes.stdin("p1", b"\xff\n"), {"bytes": 2})
        processes.resize("p1", 100, 30)
        bodies = [request[3] for request in self.stub.requests]
        self.assertEqual(bodies[0], b'{"command":"npm run dev","tag":"dev","restart":"generation"}')
        self.assertEqual(bodies[3:], [b'{"signal":"SIGTERM"}', b"\xff\n", b'{"cols":100,"rows":30}'])

    def test_an_origin_that_is_not_allowed_ends_an_attachment_with_the_flag_that_allows_it(self):
        tries = []

        def closes(exchange):
            tries.append(1)
            exchange.upgrade()
            exchange.send_frame(8, (4403).to_bytes(2, "big") + b'{"code":"origin_not_allowed","after":0,"detail":"needs --allowed-origin"}')
            exchange.receive_frame()

        process = self.sandbox({f"GET {BASE}/processes/p1/ws": closes}).processes.attach("p1")
        with self.assertRaises(AtollError) as seen:
            next(process)
        self.assertEqual((seen.exception.code, seen.exception.detail, len(tries)), ("origin_not_allowed", "needs --allowed-origin", 1))

    def test_a_terminal_goes_on_at_the_byte_where_its_connection_broke(self):
        sandbox = self.sandbox(PROCESS_ANSWERS)
        self.stub._server.frames = []
        seen = []
        with sandbox.terminal(80, 24) as terminal:
            for frame in terminal:
                seen.append((frame.type, frame.data))
                if frame.type == "dropped":
                    terminal.write("hi")
                elif frame.type == "stderr":
                    terminal.resize(10, 5)
                    terminal.signal("SIGINT")
                    terminal.end_input()
        self.assertEqual(seen, SEEN)
        self.assertEqual((terminal.process_id, terminal.after, terminal.exit["exitCode"]), ("p1", 19, 0))
        self.assertEqual(self.stub._server.frames, SENT)
        self.assertEqual(self.stub.requests[0][3], b'{"argv":["bash","-i"],"pty":{"cols":80,"rows":24}}')
        self.assertEqual([request[1] for request in self.stub.requests[1:]], [{"after": "0"}, {"after": "3"}])

    def test_the_asynchronous_client_has_terminals_too(self):
        async def body(sandbox):
            self.stub._server.frames = []
            seen = []
            async with await sandbox.terminal(80, 24) as terminal:
                async for frame in terminal:
                    seen.append((frame.type, frame.data))
                    if frame.type == "dropped":
                        await terminal.write(b"hi")
                    elif frame.type == "stderr":
                        await terminal.resize(10, 5)
                        await terminal.signal("SIGINT")
                        await terminal.end_input()
            return seen

        self.assertEqual(self.run_async(PROCESS_ANSWERS, body), SEEN)

    def test_a_process_that_is_not_there_is_an_error_of_attach(self):
        with self.assertRaises(AtollError) as refused:
            self.sandbox({}).processes.attach("p1")
        self.assertEqual(refused.exception.code, "not_found")


if __name__ == "__main__":
    unittest.main()
