"""Commands, the watch, processes and terminals by the Python client in real sandboxes."""

import asyncio
import threading
import unittest

from lab import DEADLINE_SECONDS, InThread, Proxy, Server

from atoll_client import AsyncAtoll, Atoll, AtollError


class WithSandbox(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.client = Atoll(cls.server.url, api_key=cls.server.key, timeout=DEADLINE_SECONDS)
        cls.sandbox = cls.client.conversations.create().sandbox()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def run_async(self, body):
        async def run():
            async with AsyncAtoll(self.server.url, api_key=self.server.key) as client:
                return await body(client.sandbox(self.sandbox.id))

        return asyncio.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


class Commands(WithSandbox):
    def test_a_command_gives_its_exact_bytes_and_its_end(self):
        result = self.sandbox.exec("cat; printf '\\377' >&2; pwd; echo $A; exit 3", cwd="/tmp", env={"A": "é"}, stdin=b"\x00\xfe")
        self.assertEqual((result.exit_code, result.signal, result.timed_out), (3, None, False))
        self.assertEqual((result.stdout_bytes, result.stderr_bytes), (b"\x00\xfe/tmp\n" + "é\n".encode(), b"\xff"))
        self.assertEqual(self.sandbox.exec(argv=["echo", "$HOME", "a b"]).stdout, "$HOME a b\n")

    def test_a_command_that_takes_too_long_is_ended(self):
        result = self.sandbox.exec("echo begun; sleep 1000", timeout_ms=200)
        self.assertEqual((result.timed_out, result.exit_code, result.stdout), (True, None, "begun\n"))
        self.assertEqual(result.signal, "SIGTERM")

    def test_output_beyond_its_bound_is_cut_and_said(self):
        result = self.sandbox.exec("seq 1000", max_output_bytes=10)
        self.assertEqual((len(result.stdout_bytes), result.truncated["stdout"]), (10, True))

    def test_output_streams_while_the_command_runs(self):
        pieces = []
        for piece in self.sandbox.exec_stream("echo a; read -t 60 < <(tail -f /tmp/go --retry 2>/dev/null); echo b >&2; exit 4"):
            pieces.append(piece)
            if piece.text == "a\n":
                self.sandbox.exec("echo go > /tmp/go")
        self.assertEqual([(piece.type, piece.text) for piece in pieces], [("stdout", "a\n"), ("stderr", "b\n"), ("exit", "")])
        self.assertEqual(pieces[-1].result.exit_code, 4)

    def test_a_refusal_names_the_member(self):
        with self.assertRaises(AtollError) as refused:
            self.sandbox.exec("true", timeout_ms=-1)
        self.assertEqual((refused.exception.code, refused.exception.pointer), ("invalid_field", "/timeoutMs"))

    def test_the_asynchronous_client_runs_many_at_once(self):
        async def body(sandbox):
            results = await asyncio.gather(*(sandbox.exec(f"echo {number}") for number in range(20)))
            pieces = [piece.text async for piece in sandbox.exec_stream("echo streamed")]
            return [result.stdout for result in results], pieces

        self.assertEqual(self.run_async(body), ([f"{number}\n" for number in range(20)], ["streamed\n", ""]))


class Watches(WithSandbox):
    def test_a_watch_tells_what_a_command_changes_below_a_directory(self):
        seen = []
        with self.sandbox.files.watch("/workspace/src") as events:
            for event in events:
                seen.append(event)
                if event["type"] == "started":
                    self.sandbox.exec("mkdir -p src/a; echo x > other; echo x > src/a/f")
                if any(change["path"] == "src/a/f" for change in event.get("changes", [])):
                    break
        self.assertEqual(seen[0], {"type": "started"})
        self.assertNotIn("other", [change["path"] for event in seen for change in event.get("changes", [])])

    def test_an_asynchronous_watch_goes_on_over_a_pause_with_a_rescan(self):
        conversation = self.client.conversations.create()
        types = []

        async def body(_):
            async with AsyncAtoll(self.server.url, api_key=self.server.key) as client:
                async for event in client.sandbox(conversation.sandbox().id).files.watch():
                    types.append(event["type"])
                    if types == ["started"]:
                        conversation.pause()
                    elif event["type"] == "paused":
                        conversation.resume()
                    elif event["type"] == "rescan":
                        return

        self.run_async(body)
        self.assertEqual(types, ["started", "paused", "rescan"])


def output(frames, kind="stdout"):
    return b"".join(frame.data for frame in frames if frame.type == kind)


class Processes(WithSandbox):
    def test_a_process_is_listed_fed_and_signalled(self):
        processes = self.sandbox.processes
        process = processes.start("cat; echo over; sleep 1000", tag="feeder")["processId"]
        self.assertEqual(processes.get(process)["tag"], "feeder")
        self.assertIn(process, [entry["processId"] for entry in processes.list()])
        processes.stdin(process, b"\xff\x00 bytes")
        with processes.attach(process) as attached:
            frames = []
            for frame in attached:
                frames.append(frame)
                if output(frames) == b"\xff\x00 bytes":
                    attached.end_input()
                if frame.type == "stdout" and output(frames).endswith(b"over\n"):
                    processes.signal(process, "SIGTERM")
        self.assertEqual(attached.exit["signal"], "SIGTERM")
        self.assertEqual(attached.after, len(b"\xff\x00 bytesover\n"))

    def test_output_is_replayed_from_a_byte_on(self):
        processes = self.sandbox.processes
        process = processes.start("echo out; echo err >&2")["processId"]
        with processes.attach(process) as attached:
            everything = list(attached)
        self.assertEqual((output(everything), output(everything, "stderr")), (b"out\n", b"err\n"))
        with processes.attach(process, after=6) as attached:
            rest = list(attached)
        self.assertEqual(sum(len(frame.data) for frame in rest), 2)

    def test_output_is_read_by_pages_and_followed_without_a_websocket(self):
        processes = self.sandbox.processes
        process = processes.start("seq 60000; printf '\\377' >&2; exit 4")["processId"]
        proxy = Proxy(self.server.port)
        self.addCleanup(proxy.close)
        proxy.cut_after = 200_000
        with Atoll(proxy.url, api_key=self.server.key) as client:
            with client.sandbox(self.sandbox.id).processes.follow(process) as followed:
                frames = list(followed)
        numbers = b"".join(b"%d\n" % number for number in range(1, 60001))
        self.assertEqual((output(frames), output(frames, "stderr")), (numbers, b"\xff"))
        self.assertEqual((frames[-1].type, frames[-1].info["exitCode"]), ("exit", 4))
        self.assertGreater(proxy.accepted, 1)
        pages = [processes.output(process)]
        while pages[-1].exit is None:
            pages.append(processes.output(process, after=pages[-1].next))
        self.assertEqual(b"".join(page.stdout_bytes for page in pages), numbers)
        self.assertEqual(b"".join(page.stderr_bytes for page in pages), b"\xff")
        self.assertGreater(len(pages), 2)

    def test_an_attached_process_goes_on_over_connections_that_are_cut(self):
        proxy = Proxy(self.server.port)
        self.addCleanup(proxy.close)
        proxy.cut_after = 100_000
        with Atoll(proxy.url, api_key=self.server.key) as client:
            process = self.sandbox.processes.start("seq 60000")["processId"]
            with client.sandbox(self.sandbox.id).processes.attach(process) as attached:
                frames = list(attached)
        self.assertEqual(output(frames), b"".join(b"%d\n" % number for number in range(1, 60001)))
        self.assertGreater(proxy.accepted, 2)

    def test_a_terminal_has_a_size_and_job_control(self):
        with self.sandbox.terminal(91, 33, argv=["bash", "--norc"]) as terminal:
            terminal.write("stty size\n")
            steps = [
                (b"33 91", lambda: (terminal.resize(70, 20), terminal.write("stty size\n"))),
                # Typed apart, so that the echo is not taken for the output.
                (b"20 70", lambda: terminal.write("echo rea''dy; cat\n")),
                (b"ready\r\n", lambda: terminal.write("echoed\n")),
                # By now cat reads: it gives the line back.
                (b"echoed\r\nechoed\r\n", lambda: terminal.write("\x03")),
                # Text that is typed before the prompt is there would be lost.
                (b"$ ", lambda: terminal.write("exit 7\n")),
            ]

            def drive():
                seen, position = b"", 0
                for frame in terminal:
                    seen += frame.data
                    while steps and (found := seen.find(steps[0][0], position)) >= 0:
                        position = found + len(steps[0][0])
                        steps.pop(0)[1]()
                return seen

            seen = InThread(drive).result()
        self.assertEqual(terminal.exit["exitCode"], 7, seen)

    def test_one_thread_reads_a_terminal_while_another_one_writes_and_closes_it(self):
        terminal = self.sandbox.terminal(argv=["cat"])
        seen = threading.Event()

        def read():
            output = b""
            for frame in terminal:
                output += frame.data
                if b"typed\r\ntyped" in output:
                    seen.set()
            return output

        reader = InThread(read)
        terminal.write("typed\n")
        self.assertTrue(seen.wait(DEADLINE_SECONDS))
        terminal.close()
        self.assertIn(b"typed", reader.result())
        self.assertIsNone(terminal.exit)
        self.sandbox.processes.signal(terminal.process_id, "SIGKILL")

    def test_the_asynchronous_client_has_terminals_too(self):
        async def body(sandbox):
            seen = b""
            async with await sandbox.terminal(91, 33, argv=["bash", "--norc"]) as terminal:
                await terminal.write("stty size; exit 5\n")
                async for frame in terminal:
                    seen += frame.data
            return seen, terminal.exit["exitCode"]

        seen, code = self.run_async(body)
        self.assertIn(b"33 91", seen)
        self.assertEqual(code, 5)


if __name__ == "__main__":
    unittest.main()
