#!/usr/bin/env python3
"""A model that works in a sandbox: a loop between a model's API and the sandbox's tools, which edit files and run commands.

    model_loop.py TASK

The model gets the task and the definitions of the tools. Each tool that it asks for is run in the sandbox, and the result
goes back, until the model asks for none. MODEL_URL is an API of the form of Anthropic's messages, MODEL_API_KEY its key,
MODEL the model's name. ATOLL_URL and ATOLL_API_KEY are the server's. The sandbox is new, and removed at the end.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

# From the source tree; not needed where the package is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from atoll_client import Atoll

MODEL_SECONDS = 300
MAX_TOKENS = 4096
# A model that asks for more is stopped.
MAX_ROUNDS = 50


def ask_model(messages, tools):
    body = {"model": os.environ.get("MODEL", "model"), "max_tokens": MAX_TOKENS, "tools": tools, "messages": messages}
    headers = {"Content-Type": "application/json", "X-API-Key": os.environ.get("MODEL_API_KEY", ""), "Anthropic-Version": "2023-06-01"}
    request = urllib.request.Request(os.environ["MODEL_URL"], json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=MODEL_SECONDS) as answer:
        return json.load(answer)


def run_tool(sandbox, use):
    """Runs a tool that the model asked for and returns the answer for it. A failure is told to the model, too: it may correct itself."""
    result = sandbox.tools.call(use["name"], use["input"], context={"toolCallId": use["id"]})
    print(f"[{use['name']}] {result['userFeedback']}", file=sys.stderr)
    told = {name: result[name] for name in ("data", "technicalDetails", "warnings", "suggestions") if name in result}
    return {"type": "tool_result", "tool_use_id": use["id"], "content": json.dumps(told), "is_error": not result["success"]}


def work(sandbox, task):
    """Prints what the model says, up to its last word."""
    tools = sandbox.tools("anthropic")
    messages = [{"role": "user", "content": task}]
    for _ in range(MAX_ROUNDS):
        answer = ask_model(messages, tools)
        messages.append({"role": "assistant", "content": answer["content"]})
        for part in answer["content"]:
            if part["type"] == "text":
                print(part["text"])
        uses = [part for part in answer["content"] if part["type"] == "tool_use"]
        if not uses:
            return
        messages.append({"role": "user", "content": [run_tool(sandbox, use) for use in uses]})
    raise RuntimeError(f"the model went on for more than {MAX_ROUNDS} rounds")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    url = os.environ.get("ATOLL_URL", "http://127.0.0.1:4100")
    with Atoll(url) as client, client.sandboxes.create() as sandbox:
        work(sandbox, sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
