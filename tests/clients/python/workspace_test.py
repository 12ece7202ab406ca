"""Files, archives, tools and what else the Python client has for a sandbox, in real sandboxes of a real server."""

import asyncio
import io
import os
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from lab import DEADLINE_SECONDS, Server

from atoll_client import AsyncAtoll, Atoll, AtollError

TOOLS = ["list_directory", "read_file", "write_file", "replace", "search_file_content", "glob", "run_command"]


class WithSandboxes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.client = Atoll(cls.server.url, api_key=cls.server.key, timeout=DEADLINE_SECONDS)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def setUp(self):
        self.sandbox = self.client.sandboxes.create()
        self.addCleanup(self.sandbox.delete)
        self.files = self.sandbox.files

    def refused(self, code, call, *arguments, **more):
        with self.assertRaises(AtollError) as refused:
            call(*arguments, **more)
        self.assertEqual(refused.exception.code, code)


class Files(WithSandboxes):
    def test_a_file_comes_back_as_it_was_written_also_in_part(self):
        content = bytes(range(256)) * 4000
        entry = self.files.write("d/a b%41?é", io.BytesIO(content), mode=0o755)
        self.assertEqual((entry.type, entry.size, entry.mode, entry.name), ("file", len(content), "0755", "a b%41?é"))
        self.assertEqual(self.files.read(entry), content)
        self.assertEqual(self.files.read("d/a b%41?é", 254, 258), b"\xfe\xff\x00\x01")
        self.assertEqual(self.files.read(entry, -2), b"\xfe\xff")
        self.assertEqual(b"".join(self.files.stream(entry)), content)
        to = io.BytesIO()
        self.assertEqual((self.files.download(entry, to), to.getvalue()), (len(content), content))
        self.assertEqual(self.sandbox.exec(argv=["stat", "-c", "%s", "d/a b%41?é"]).stdout, f"{len(content)}\n")

    def test_conditions_hold_and_an_inplace_write_keeps_the_file(self):
        first = self.files.write("f", "one", if_none_match="*")
        self.refused("precondition_failed", self.files.write, "f", "two", if_none_match="*")
        second = self.files.write("f", "two", if_match=first.etag)
        self.refused("precondition_failed", self.files.write, "f", "three", if_match=first.etag)
        self.assertEqual((self.files.read_text("f"), self.files.stat("f").etag), ("two", second.etag))
        inode = self.sandbox.exec("ln f g; stat -c %i f").stdout
        self.files.write("f", "four", inplace=True)
        self.assertEqual((self.sandbox.exec("stat -c %i f").stdout, self.files.read_text("g")), (inode, "four"))

    def test_names_that_are_no_text_are_listed_and_reached(self):
        self.files.write(b"\xff", "bytes")
        self.files.write("b", "")
        entries = list(self.files.list(limit=1))
        self.assertEqual([entry.path for entry in entries], ["b", "\ufffd"])
        self.assertEqual((self.files.read_text(entries[1]), entries[1].href), ("bytes", "%FF"))
        copied = self.files.copy(entries[1], b"\xfe%41")
        self.assertEqual((copied.path, copied.href), ("\ufffd%41", "%FE%2541"))
        self.assertEqual(self.sandbox.exec("ls -b").stdout, "b\n\\376%41\n\\377\n")

    def test_directories_are_made_listed_moved_copied_and_removed(self):
        self.assertEqual(self.files.mkdir("a/b").type, "directory")
        self.files.write("/workspace/a/b/f", "x")
        self.assertEqual([entry.path for entry in self.files.list("a", depth=2)], ["a/b", "a/b/f"])
        self.assertEqual(self.files.copy("a", "c").path, "c")
        self.assertEqual(self.files.move("a/b/f", "c/g").path, "c/g")
        self.refused("already_exists", self.files.move, "c/g", "c/b/f")
        self.assertEqual(self.files.mkdir("a/b").type, "directory")
        self.refused("directory_not_empty", self.files.remove, "c")
        self.files.remove("c", recursive=True)
        self.assertEqual([entry.path for entry in self.files.list(depth=5)], ["a", "a/b"])
        self.refused("file_not_found", self.files.read, "c/g")
        self.refused("is_directory", self.files.read, "a")
        self.refused("outside_workspace", self.files.read, "../etc/passwd")

    def test_a_part_of_the_workspace_is_packed_and_unpacked_elsewhere(self):
        self.files.write("src/a/f", "one", mode=0o755)
        self.files.write("other", "two")
        part, whole = io.BytesIO(), io.BytesIO()
        self.assertEqual(self.files.archive(part, "src"), len(part.getvalue()))
        self.files.archive(whole)
        part.seek(0)
        whole.seek(0)
        with tarfile.open(fileobj=part) as tar:
            self.assertEqual([name for name in tar.getnames() if name not in ("", ".")], ["a", "a/f"])
        with tarfile.open(fileobj=whole) as tar:
            self.assertLessEqual({"src/a/f", "other"}, set(tar.getnames()))
        part.seek(0)
        self.assertEqual(self.files.unpack(part, self.files.mkdir("copy"))["bytes"], 3)
        self.assertEqual((self.files.read_text("copy/a/f"), self.files.stat("copy/a/f").mode), ("one", "0755"))
        self.refused("invalid_archive", self.files.unpack, b"no tar" * 200)

    def test_what_python_zips_goes_in_and_what_comes_out_as_zip_or_gzip_is_read_by_python(self):
        zipped, compressed = io.BytesIO(), io.BytesIO()
        with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/f", "one" * 1000)
        zipped.seek(0)
        self.assertEqual(self.files.unpack(zipped, "in")["bytes"], 3000)
        zipped = io.BytesIO()
        self.files.archive(zipped, "in", format="zip")
        with zipfile.ZipFile(zipped) as archive:
            self.assertEqual((archive.testzip(), archive.read("a/f")), (None, b"one" * 1000))
        self.files.archive(compressed, "in", format="tar.gz")
        compressed.seek(0)
        with tarfile.open(fileobj=compressed, mode="r:gz") as archive:
            self.assertEqual(archive.extractfile("a/f").read(), b"one" * 1000)
        self.refused("invalid_archive", self.files.unpack, b"no zip" * 200, format="zip")
        self.refused("invalid_field", self.files.archive, io.BytesIO(), format="rar")

    def test_an_archive_or_a_file_goes_to_a_path_of_this_machine_and_comes_from_one(self):
        self.files.write("src/f", b"one")
        with tempfile.TemporaryDirectory() as here:
            path = os.path.join(here, "x.zip")
            self.assertEqual(self.files.archive(path, "src"), os.path.getsize(path))
            with zipfile.ZipFile(path) as archive:
                self.assertEqual(archive.read("f"), b"one")
            self.assertEqual(self.files.unpack(Path(path), "again")["bytes"], 3)
            self.assertEqual(self.files.download("again/f", Path(here, "f")), 3)
            self.assertEqual(Path(here, "f").read_bytes(), b"one")
            with self.assertRaises(FileNotFoundError):
                self.files.unpack(os.path.join(here, "none.tar"))

    def test_a_folder_goes_in_and_comes_out_and_links_that_lead_out_stay_behind(self):
        with tempfile.TemporaryDirectory() as here:
            source, back = Path(here, "source"), Path(here, "back")
            (source / "sub" / ("x" * 120)).mkdir(parents=True)
            (source / "sub" / "run").write_text("one")
            (source / "sub" / "run").chmod(0o755)
            (source / "link").symlink_to("sub/run")
            self.assertEqual(self.files.upload_dir(source, "web"), {"entries": 4, "bytes": 3})
            self.assertEqual(self.sandbox.exec(["cat", "web/link"]).stdout, "one")
            self.sandbox.exec("cd web; ln -s /etc/passwd out; ln -s sub in; mkfifo f")
            self.assertEqual(self.files.download_dir("web", back), 1)
            self.assertEqual(sorted(os.listdir(back)), ["in", "link", "sub"])
            self.assertEqual(((back / "link").read_text(), os.access(back / "sub" / "run", os.X_OK)), ("one", True))
            self.assertTrue((back / "in" / ("x" * 120)).is_dir())

    def test_the_asynchronous_client_does_the_same(self):
        async def pieces():
            for piece in (b"a", b"b" * 100_000):
                yield piece

        async def body():
            async with AsyncAtoll(self.server.url, api_key=self.server.key) as client:
                sandbox = await client.sandboxes.get(self.sandbox.id)
                await sandbox.files.write("f", pieces())
                archive = io.BytesIO()
                await sandbox.files.archive(archive)
                archive.seek(0)
                await sandbox.files.unpack(archive, "copy")
                names = [entry.path async for entry in sandbox.files.list(depth=2)]
                result = await sandbox.tools.call("glob", {"pattern": "**/f"})
                return await sandbox.files.read("copy/f"), names, result["data"]["count"]

        found = asyncio.run(asyncio.wait_for(body(), DEADLINE_SECONDS))
        self.assertEqual(found, (b"a" + b"b" * 100_000, ["copy", "copy/f", "f"], 2))



class Owned(WithSandboxes):
    def test_the_environment_names_the_server_and_with_deletes_what_it_held(self):
        with mock.patch.dict(os.environ, ATOLL_URL=self.server.url, ATOLL_API_KEY=self.server.key):
            with Atoll() as client, client.conversations.create(agent="shell") as conversation:
                self.assertEqual(conversation.sandbox().exec(["echo", "a b"]).stdout, "a b\n")
                self.assertEqual(conversation.info.sandbox_status, "ready")
                self.assertEqual(conversation.preview_url(), conversation.info.sandbox_public_url)
                self.assertIsNone(conversation.preview_url(8000))
                inner = conversation.sandbox()
                self.assertEqual((inner.preview_url(), inner.preview_url(8000)), (conversation.info.sandbox_public_url, None))
                self.assertIn(conversation.id, repr(conversation))
            with Atoll() as client, client.sandboxes.create() as sandbox:
                sandbox.delete()  # twice is no error
        self.refused("not_found", self.client.conversations.get, conversation.id)
        self.refused("not_found", self.client.sandboxes.get, sandbox.id)

    def test_an_error_of_the_block_is_raised_and_the_conversation_deleted(self):
        async def body():
            async with AsyncAtoll(self.server.url, api_key=self.server.key) as client:
                with self.assertRaises(KeyError):
                    async with await client.conversations.create(agent="shell") as conversation:
                        raise KeyError
                return conversation.id

        self.refused("not_found", self.client.conversations.get, asyncio.run(body()))


class Tools(WithSandboxes):
    def test_definitions_come_in_the_form_that_a_model_wants(self):
        self.assertEqual([tool["name"] for tool in self.sandbox.tools("anthropic")], TOOLS)
        self.assertEqual([tool["function"]["name"] for tool in self.client.tools("openai")], TOOLS)

    def test_tools_work_on_the_files_and_failures_are_results(self):
        call = self.sandbox.tools.call
        made = call("write_file", {"file_path": "src/a.txt", "content": "one\n"}, {"toolCallId": "c1", "userId": "u"})
        self.assertTrue(made["success"], made)
        self.assertEqual((made["changedFiles"], made["context"]), (["/workspace/src/a.txt"], {"toolCallId": "c1", "userId": "u"}))
        self.assertTrue(call("replace", {"file_path": "src/a.txt", "old_string": "one", "new_string": "two"})["success"])
        self.assertEqual(self.files.read_text("src/a.txt"), "two\n")
        self.assertEqual(call("read_file", {"absolute_path": "/workspace/src/a.txt"})["data"]["content"], "two\n")
        missing = call("replace", {"file_path": "src/a.txt", "old_string": "none", "new_string": "x"})
        self.assertEqual((missing["success"], missing["technicalDetails"]["errorCode"]), (False, "STRING_NOT_FOUND"))
        self.assertEqual(self.client.tools.call("glob", {"pattern": "*"})["technicalDetails"]["errorCode"], "MISSING_SANDBOX")
        ran = call("run_command", {"command": "cat src/a.txt; exit 3"})
        self.assertEqual((ran["success"], ran["data"]["exitCode"], ran["data"]["stdout"]), (True, 3, "two\n"))
        self.refused("not_found", call, "format_disk", {})


class Others(WithSandboxes):
    def test_a_sandbox_is_found_again_and_its_log_has_its_life(self):
        self.assertEqual(self.client.sandboxes.get(self.sandbox.id).info()["id"], self.sandbox.id)
        self.assertIn(self.sandbox.id, [info["id"] for info in self.client.sandboxes.list()])
        self.refused("not_found", self.client.sandboxes.get, "a" * 20)
        log = self.sandbox.logs(stream="system")
        self.assertEqual({entry["stream"] for entry in log["entries"]}, {"system"})
        self.assertEqual(self.sandbox.logs(log["next"], "system")["entries"], [])

    def test_a_process_takes_all_options(self):
        processes = self.sandbox.processes
        silent = processes.start("cat; echo over", stdin="null", tag="silent")["processId"]
        with processes.attach(silent) as attached:
            self.assertEqual(b"".join(frame.data for frame in attached), b"over\n")
        late = processes.start("sleep 1000", timeout_ms=100, tag="late")["processId"]
        with processes.attach(late) as attached:
            list(attached)
        self.assertTrue(attached.exit["timedOut"])
        self.assertEqual([entry["processId"] for entry in processes.list(tag="late")], [late])
        self.assertEqual(len(processes.list()), 2)
        fed = processes.start(argv=["cat"])["processId"]
        self.assertEqual(processes.stdin(fed, b"all", eof=True), {"bytes": 3})
        with processes.attach(fed) as attached:
            self.assertEqual(b"".join(frame.data for frame in attached), b"all")
        self.assertEqual(attached.exit["exitCode"], 0)
        with self.sandbox.terminal(argv=["cat"], tag="shell") as terminal:
            self.assertEqual([entry["processId"] for entry in processes.list("shell")], [terminal.process_id])
        self.refused("invalid_field", processes.signal, terminal.process_id, 15)
        processes.signal(terminal.process_id, "SIGKILL")


if __name__ == "__main__":
    unittest.main()
