"""Stands in for the routes of a sandbox (exec, files, processes, tools): a local server that records requests and answers
as the test says. Not a sandbox: nothing runs.
"""

import base64
import hashlib
import json
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class Exchange(BaseHTTPRequestHandler):
    """A request that the stub answers: `query`, `body` and, for a WebSocket, `receive_frame` and `send_frame`."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def body_pieces(self):
        """The body as it comes, in chunks or with a length."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def handle_one(self):
        route, _, query = self.path.partition("?")
        self.query = {name: values[0] for name, values in parse_qs(query).items()}
        name = f"{self.command} {route}"
        answer = self.server.answers.get(name)
        # An answer that reads the body itself says so: it may be large.
        self.body = b"" if getattr(answer, "reads_body", False) else b"".join(self.body_pieces())
        with self.server.lock:
            self.server.requests.append((name, self.query, dict(self.headers), self.body))
        if answer is None:
            return self.send(404, {"code": "not_found", "detail": name}, "application/problem+json")
        value = answer(self) if callable(answer) else answer
        if value is not None:
            self.send(200, value)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_one

    def send(self, status, value, media_type="application/json", **fields):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        for name, text in fields.items():
            self.send_header(name.replace("_", "-"), text)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if status != 204 else b"")

    def send_events(self, *events, epoch=None):
        """A stream that ends with its connection. With an epoch, what has a seq has an id."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            if epoch is not None and "seq" in event:
                self.wfile.write(f"id: {event['seq']}-{epoch}\n".encode())
            self.wfile.write(b": heartbeat\ndata: " + json.dumps(event).encode() + b"\n\n")

    def json(self):
        return json.loads(self.body)

    def upgrade(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True

    def send_frame(self, opcode, payload, first_bit=0x80):
        if isinstance(payload, dict):
            payload = json.dumps(payload).encode()
        head = struct.pack("!BB", first_bit | opcode, len(payload)) if len(payload) < 126 else struct.pack("!BBH", first_bit | opcode, 126, len(payload))
        self.wfile.write(head + payload)

    def receive_frame(self):
        """(opcode, payload) of a masked frame."""
        first, second = self.rfile.read(2)
        assert second & 0x80, "a frame of a client is masked"
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self.rfile.read(2))
        mask = self.rfile.read(4)
        return first & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(size)))


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that leaves is no error; all else is printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Stub:
    """`answers` maps "METHOD /path", as it was sent, to a value for JSON or to a function of the Exchange."""

    def __init__(self, answers):
        self._server = QuietServer(("127.0.0.1", 0), Exchange)
        self._server.answers = answers
        self._server.requests = []
        self._server.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def requests(self):
        with self._server.lock:
            return list(self._server.requests)

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
