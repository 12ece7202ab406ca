# An agent that writes every kind of event once, for the console to show.
import json
import sys


def say(event, **data):
    print(json.dumps({"ev": event, "data": data}), flush=True)


say("ready")
for line in sys.stdin:
    command = json.loads(line)
    if command["cmd"] == "shutdown":
        break
    if command["cmd"] != "query":
        continue
    if command["prompt"] == "crash":
        say("text_delta", delta="Going down.")
        sys.exit(3)
    say("thinking_delta", delta="Let me ")
    say("thinking_delta", delta="<b>think</b>.")
    say("text_delta", delta="Before ")
    say("text_delta", delta="the tool. ")
    say("tool_use", id="1", name="search", input={"pattern": "needle"})
    say("tool_result", toolUseId="1", content=[{"type": "text", "text": "found <i>it</i>"}], isError=False)
    say("tool_use", id="2", name="<img src=x>", input={})
    say("tool_result", toolUseId="2", content="no such tool", isError=True)
    say("tool_result", toolUseId="of-nothing", content={"a": [1, 2]}, isError=False)
    say("message", type="message", role="assistant", content=[{"type": "text", "text": "hi"}])
    say("text_delta", delta="After the tool.")
    say("error", code="odd", message="something <u>odd</u>")
    say("turn_complete", result="success")
    say("done")
