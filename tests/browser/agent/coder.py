# A coding agent that speaks ACP. It does what its prompt names, and asks for a permission before each change.
import itertools
import json
import queue
import sys
import threading

lock = threading.Lock()
ids = itertools.count(100)
answers = {}
cancelled = threading.Event()
OPTIONS = [("once", "Allow", "allow_once"), ("always", "Always allow", "allow_always"), ("no", "Reject", "reject_once")]
HOSTILE = "<img src=x onerror=window.hacked=1>\u202e javascript:window.hacked=2"


def send(**message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(what, **members):
    send(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": what, **members}})


def text(words):
    return {"type": "text", "text": words}


def say(words):
    update("agent_message_chunk", content=text(words))


def think(words):
    update("agent_thought_chunk", content=text(words))


def plan(*states):
    steps = ["Look at the notes", "Translate the second line", "Tell what was done"]
    update("plan", entries=[{"content": step, "status": state, "priority": "medium"} for step, state in zip(steps, states)])


def ask(tool, options=OPTIONS):
    number = next(ids)
    answers[number] = queue.Queue()
    listed = [{"optionId": one, "name": name, "kind": kind} for one, name, kind in options]
    send(id=number, method="session/request_permission", params={"sessionId": "s", "toolCall": {"toolCallId": tool}, "options": listed})
    outcome = answers[number].get()
    return outcome.get("optionId") in ("once", "always")


def edit(tool, path):
    before, after = "one\ntwo\nthree\n", "one\nzwei\nthree\n"
    update("tool_call", toolCallId=tool, title=f"Edit {path}", kind="edit", status="pending",
           rawInput={"path": path, "old_string": before, "new_string": after})
    if ask(tool):
        update("tool_call_update", toolCallId=tool, status="completed",
               content=[{"type": "diff", "path": path, "oldText": before, "newText": after}, {"type": "content", "content": text("Written.")}])
    else:
        update("tool_call_update", toolCallId=tool, status="failed", rawOutput="The user refused it.")


def work(words):
    if words == "edit":
        think("I look at the notes, ")
        think("then I translate.")
        plan("in_progress", "pending", "pending")
        update("tool_call", toolCallId="look", title="cat notes.txt", kind="execute", status="in_progress", rawInput={"command": ["cat", "notes.txt"]})
        update("tool_call_update", toolCallId="look", status="completed", content=[{"type": "content", "content": text("one\ntwo\nthree\n")}])
        plan("completed", "in_progress", "pending")
        say("I change ")
        update("usage_update", used=10, size=100)
        say("one line.")
        edit("change", "notes.txt")
        plan("completed", "completed", "completed")
        say("That is all.")
    elif words == "both":
        threads = [threading.Thread(target=edit, args=(f"t-{path}", path)) for path in ("a.txt", "b.txt")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say("Both are over.")
    elif words == "hostile":
        update("tool_call", toolCallId="evil", title=HOSTILE, kind=HOSTILE, status="pending",
               rawInput={"path": HOSTILE, "old_string": HOSTILE, "new_string": "\u001b]8;;http://evil.example\u0007x"})
        update("plan", entries=[{"content": HOSTILE, "status": HOSTILE, "priority": HOSTILE}, 7])
        ask("evil", [("once", HOSTILE, "allow_once"), ("no", "Allow", "reject_once")])
        blocks = [{"type": "content", "content": text(HOSTILE)}, {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "AAAA"}},
                  {"type": "content", "content": {"type": "resource_link", "uri": "javascript:window.hacked=3", "name": "x"}}, {"type": "odd", "x": HOSTILE}]
        update("tool_call_update", toolCallId="evil", status="completed", rawOutput={"output": "wide " * 40_000}, content=blocks)
    elif words == "wait":
        think("Hm.")
        update("tool_call", toolCallId="slow", title="sleep 1000", kind="execute", status="in_progress", rawInput={"command": "sleep 1000"})
        cancelled.wait()


def turn(number, words):
    cancelled.clear()
    work(words)
    send(id=number, result={"stopReason": "cancelled" if cancelled.is_set() else "end_turn"})


for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if method is None:
        answers.pop(number).put(message["result"]["outcome"])
    elif method == "initialize":
        send(id=number, result={"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
    elif method == "session/new":
        send(id=number, result={"sessionId": "s"})
    elif method == "session/prompt":
        threading.Thread(target=turn, args=(number, message["params"]["prompt"][0]["text"]), daemon=True).start()
    elif method == "session/cancel":
        cancelled.set()
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "no such method"})
