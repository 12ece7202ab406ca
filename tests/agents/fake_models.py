"""A model that coding agents talk to in place of a vendor's: a TLS server on loopback with the four common APIs, which does what the last
message of the user says.

A message has a line `model: VERB WORDS`:

  say WORDS          answers with the words, each in a piece of its own
  hold FIRST REST    answers with FIRST, and with REST once release() was called
  hang               answers with `tick`, and says no more until the client leaves
  note WORD          answers `noted`
  remember           answers with the words of all notes that the request has
  write FILE TEXT    calls the agent's own tool that writes a file; then answers `the tool answered`
"""

import json
import re
import secrets
import select
import shlex
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMAND = re.compile(r"model: (say|hold|hang|note|remember|write)\b ?([^\n<\"\\]*)")
# The adapter begins a prompt so where the agent has no memory (docs/agents.md).
TOLD_MARK = "of which you have no memory"


def by_shell(path, text):
    return f"printf %s {shlex.quote(text)} > {shlex.quote(path)}"


# The tools that write a file: by name, the input for a path and a text.
WRITERS = {
    "Write": lambda path, text: {"file_path": path, "content": text},
    "write": lambda path, text: {"filePath": path, "content": text},
    "write_file": lambda path, text: {"file_path": path, "content": text},
    "create": lambda path, text: {"path": path, "file_text": text},
    "exec_command": lambda path, text: {"cmd": by_shell(path, text)},
    "shell_command": lambda path, text: {"command": by_shell(path, text)},
    # A program in JavaScript, as text.
    "exec": lambda path, text: f"text(await tools.exec_command({json.dumps({'cmd': by_shell(path, text)})}))",
}


class Request:
    """A request as the model reads it: `turns` are pairs of a role (user, model, tool) and a text; `tools` are names."""

    def __init__(self, path, headers, turns, tools, wants_json=False):
        self.path = path
        self.headers = headers
        self.turns = turns
        self.tools = tools
        # Titles, summaries and routing: asked beside the conversation.
        self.is_side = wants_json or not tools
        self.wants_json = wants_json

    @property
    def command(self):
        """(verb, words) of the newest message."""
        for role, text in reversed(self.turns):
            found = COMMAND.findall(text) if role == "user" else []
            if found:
                return found[-1][0], found[-1][1].strip()
        return "say", "hello"

    @property
    def notes(self):
        return [words.strip() for role, text in self.turns if role == "user" for verb, words in COMMAND.findall(text) if verb == "note"]

    @property
    def is_told(self):
        """Whether the past came as words of a prompt, not as the agent's own memory."""
        return any(TOLD_MARK in text for role, text in self.turns if role == "user")


def joined(content, kinds=("text", "input_text", "output_text")):
    """The text of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or () if part.get("type") in kinds)


class Anthropic:
    """POST /v1/messages"""

    @staticmethod
    def matches(path):
        return path.endswith("/v1/messages")

    @staticmethod
    def read(path, headers, body):
        turns = []
        for message in body["messages"]:
            role = "model" if message["role"] == "assistant" else message["role"]
            content = message["content"]
            is_tool = not isinstance(content, str) and any(part.get("type") == "tool_result" for part in content)
            turns.append(("tool" if is_tool else role, joined(content)))
        return Request(path, headers, turns, {tool["name"] for tool in body.get("tools") or ()})

    def __init__(self, body):
        self.model = body["model"]
        self.index = -1
        self.open = None  # the type of the block that is not closed
        self.reason = "end_turn"

    def frame(self, **data):
        return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"

    def begin(self):
        return self.frame(type="message_start", message={
            "id": "msg_" + secrets.token_hex(8), "type": "message", "role": "assistant", "model": self.model, "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}})

    def start(self, block):
        done = self.close()
        self.index += 1
        self.open = block["type"]
        return done + self.frame(type="content_block_start", index=self.index, content_block=block)

    def close(self):
        was_open, self.open = self.open, None
        return self.frame(type="content_block_stop", index=self.index) if was_open else ""

    def delta(self, **delta):
        return self.frame(type="content_block_delta", index=self.index, delta=delta)

    def text(self, piece):
        start = "" if self.open == "text" else self.start({"type": "text", "text": ""})
        return start + self.delta(type="text_delta", text=piece)

    def tool(self, name, arguments):
        self.reason = "tool_use"
        start = self.start({"type": "tool_use", "id": "toolu_" + secrets.token_hex(8), "name": name, "input": {}})
        return start + self.delta(type="input_json_delta", partial_json=json.dumps(arguments))

    def end(self):
        return self.close() + self.frame(type="message_delta", delta={"stop_reason": self.reason, "stop_sequence": None},
                                         usage={"output_tokens": 5}) + self.frame(type="message_stop")

    def whole(self, text):
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 5}}


class Chat:
    """POST /v1/chat/completions"""

    @staticmethod
    def matches(path):
        return path.endswith("/chat/completions")

    @staticmethod
    def read(path, headers, body):
        roles = {"assistant": "model"}
        turns = [(roles.get(message["role"], message["role"]), joined(message.get("content"))) for message in body["messages"]]
        return Request(path, headers, turns, {tool["function"]["name"] for tool in body.get("tools") or () if "function" in tool})

    def __init__(self, body):
        self.model = body["model"]
        self.id = "chatcmpl-" + secrets.token_hex(8)
        self.reason = "stop"

    def frame(self, delta, reason=None, **more):
        chunk = {"id": self.id, "object": "chat.completion.chunk", "created": 1, "model": self.model,
                 "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}
        return f"data: {json.dumps(chunk)}\n\n"

    def begin(self):
        return self.frame({"role": "assistant", "content": ""})

    def text(self, piece):
        return self.frame({"content": piece})

    def tool(self, name, arguments):
        self.reason = "tool_calls"
        call = {"index": 0, "id": "call_" + secrets.token_hex(8), "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        return self.frame({"tool_calls": [call]})

    def end(self):
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return self.frame({}, self.reason, usage=usage) + "data: [DONE]\n\n"

    def whole(self, text):
        return {"id": self.id, "object": "chat.completion", "created": 1, "model": self.model,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}


class Responses:
    """POST /v1/responses"""

    @staticmethod
    def matches(path):
        return path.endswith("/responses")

    @staticmethod
    def read(path, headers, body):
        items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        turns = []
        for item in items:
            if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                turns.append(("tool", str(item.get("output"))))
            elif "role" in item:
                turns.append(("model" if item["role"] == "assistant" else item["role"], joined(item.get("content"))))
        # They are part of the input, in groups, where codex knows that the model takes them so.
        groups = [{"tools": body.get("tools")}, *(group for item in items if item.get("type") == "additional_tools" for group in item["tools"])]
        return Request(path, headers, turns, {tool.get("name") for group in groups for tool in group.get("tools") or ()})

    def __init__(self, body):
        self.id = "resp_" + secrets.token_hex(8)
        self.item = None
        self.output = []

    def frame(self, kind, **data):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"

    def response(self, status):
        usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
        return {"id": self.id, "object": "response", "status": status, "output": self.output, "usage": usage}

    def begin(self):
        return self.frame("response.created", response={**self.response("in_progress"), "usage": None})

    def text(self, piece):
        start = ""
        if self.item is None:
            self.item = {"type": "message", "id": "msg_" + secrets.token_hex(8), "role": "assistant", "status": "in_progress",
                         "content": [{"type": "output_text", "text": "", "annotations": []}]}
            start = self.frame("response.output_item.added", output_index=0, item={**self.item, "content": []})
        self.item["content"][0]["text"] += piece
        return start + self.frame("response.output_text.delta", item_id=self.item["id"], output_index=0, content_index=0, delta=piece)

    def tool(self, name, arguments):
        done = self.close()
        self.item = {"id": "item_" + secrets.token_hex(8), "call_id": "call_" + secrets.token_hex(8), "name": name, "status": "completed"}
        if isinstance(arguments, str):
            self.item.update(type="custom_tool_call", input=arguments)
        else:
            self.item.update(type="function_call", arguments=json.dumps(arguments))
        return done + self.frame("response.output_item.added", output_index=len(self.output), item=self.item)

    def close(self):
        if self.item is None:
            return ""
        item, self.item = {**self.item, "status": "completed"}, None
        self.output.append(item)
        return self.frame("response.output_item.done", output_index=len(self.output) - 1, item=item)

    def end(self):
        return self.close() + self.frame("response.completed", response=self.response("completed"))

    def whole(self, text):
        self.text(text)
        self.close()
        return self.response("completed")


class Gemini:
    """POST /v1beta/models/NAME:streamGenerateContent and :generateContent"""

    @staticmethod
    def matches(path):
        return path.endswith((":generateContent", ":streamGenerateContent"))

    @staticmethod
    def read(path, headers, body):
        turns = []
        for content in body["contents"]:
            parts = content.get("parts") or []
            is_tool = any("functionResponse" in part for part in parts)
            role = "tool" if is_tool else content.get("role", "user")
            turns.append((role, "\n".join(part.get("text") or "" for part in parts)))
        tools = {function["name"] for tool in body.get("tools") or () for function in tool.get("functionDeclarations") or ()}
        settings = body.get("generationConfig") or {}
        return Request(path, headers, turns, tools, settings.get("responseMimeType") == "application/json")

    def __init__(self, _):
        pass

    def chunk(self, parts, **more):
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **more}], "usageMetadata": usage,
                "modelVersion": "fake", "responseId": "r1"}

    def frame(self, parts, **more):
        return f"data: {json.dumps(self.chunk(parts, **more))}\r\n\r\n"

    def begin(self):
        return ""

    def text(self, piece):
        return self.frame([{"text": piece}])

    def tool(self, name, arguments):
        return self.frame([{"functionCall": {"name": name, "args": arguments}}])

    def end(self):
        return self.frame([{"text": ""}], finishReason="STOP")

    def whole(self, text):
        return self.chunk([{"text": text}], finishReason="STOP")


APIS = (Anthropic, Chat, Responses, Gemini)
# An answer to each of gemini's questions of which model is to answer.
ROUTING = {"reasoning": "it is simple", "model_choice": "flash", "complexity_reasoning": "it is simple", "complexity_score": 1}


class Left(Exception):
    """The client closed its connection."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        # A list of models, where one is asked for.
        self.server.models.others.append((self.command, self.path))
        self.send_json(200, {"object": "list", "data": [], "models": []})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        path = self.path.partition("?")[0]
        models = self.server.models
        if path.endswith(("/count_tokens", ":countTokens")):
            return self.send_json(200, {"input_tokens": 10, "totalTokens": 10})
        api = next((api for api in APIS if api.matches(path)), None)
        if api is None:
            models.others.append((self.command, self.path))
            return self.send_json(404, {"error": {"type": "not_found_error", "message": "the fake model has no " + path}})
        request = api.read(path, dict(self.headers.items()), body)
        models.take(request)
        writer = api(body)
        if not (body.get("stream") or path.endswith(":streamGenerateContent")):
            return self.send_json(200, writer.whole("".join(piece for kind, *rest in self.answer(request) if kind == "text" for piece in rest)))
        try:
            self.stream(writer, request)
        except (Left, OSError):
            models.tell_left()
            self.close_connection = True

    def send_json(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, writer, request):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.send_chunk(writer.begin())
        for kind, *rest in self.answer(request):
            self.send_chunk(writer.text(*rest) if kind == "text" else writer.tool(*rest))
        self.send_chunk(writer.end())
        self.wfile.write(b"0\r\n\r\n")

    def send_chunk(self, text):
        if text:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
            self.wfile.flush()

    def answer(self, request):
        """What the model says, in pieces: ("text", piece) or ("tool", name, input)."""
        verb, words = request.command
        if request.wants_json:
            yield "text", json.dumps(ROUTING)
        elif request.is_side:
            yield "text", "A title"
        elif request.turns[-1][0] == "tool":
            yield from (("text", piece) for piece in ("the ", "tool ", "answered"))
        elif verb == "write":
            path, _, text = words.partition(" ")
            name = next((name for name in WRITERS if name in request.tools), None)
            if name is None:
                yield "text", f"no tool writes: {sorted(request.tools)}"
            else:
                yield "tool", name, WRITERS[name]("/workspace/" + path, text)
        elif verb == "hold":
            first, _, rest = words.partition(" ")
            yield "text", first + " "
            self.wait(is_released=True)
            yield "text", rest
        elif verb == "hang":
            yield "text", "tick "
            self.wait(is_released=False)
        elif verb == "remember":
            yield "text", "notes: " + ", ".join(request.notes)
        else:
            yield from (("text", word + " ") for word in (["noted"] if verb == "note" else words.split()))

    def wait(self, is_released):
        """Until the client leaves, or release() lets this go on."""
        gate = self.server.models.gate
        while True:
            ready = select.select([self.connection] + [gate] * is_released, [], [])[0]
            if gate in ready:
                gate.recv(1)
                return
            self.connection.settimeout(0.0)
            try:
                is_gone = not self.connection.recv(1)
            except ssl.SSLWantReadError:
                is_gone = False
            finally:
                self.connection.settimeout(None)
            if is_gone:
                raise Left


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        # Clients leave as they like.
        pass


class Models:
    """Serves until close(). `requests` are those for an answer; `others` all that is not understood."""

    def __init__(self, certificate, key):
        self.requests = []
        self.others = []
        self.left = 0
        self.changed = threading.Condition()
        self.gate, self._opener = socket.socketpair()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.models = self
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request):
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()

    def tell_left(self):
        with self.changed:
            self.left += 1
            self.changed.notify_all()

    def wait_for(self, condition, seconds=60):
        """Whether it comes to be true in time."""
        with self.changed:
            return self.changed.wait_for(condition, seconds)

    def release(self):
        """Lets one `hold` go on."""
        self._opener.send(b"x")

    def close(self):
        self.server.shutdown()
        self.server.server_close()
