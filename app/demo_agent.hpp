// The agent `demo`, a program in Python: it shows a turn, from a prompt to a page in the preview, on a server
// that has no key of a model yet. It says so itself.
#pragma once

namespace atl::app {

inline constexpr const char* k_demo_agent = R"python(
import html, json, os, socket, subprocess, sys, time

PORT = 5173
FOLDER = os.environ["ATOLL_WORKSPACE_DIR"]
PAGE = os.path.join(FOLDER, "index.html")
COMMAND = f"python3 -I -m http.server {PORT} &"
STEPS = ["Write index.html", f"Serve it on port {PORT}"]
HELLO = """I am a stand-in without a model: I write the same small page for every prompt.
A coding agent can take my place: Claude Code, for example.

"""
BYE = f"""The page is served on port {PORT} of this sandbox. Its address is that of the conversation's preview.
"""
TEXT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{0}</title>
<style>body {{ font: 1.2rem/1.5 system-ui; max-width: 40rem; margin: 20vh auto; padding: 0 1rem }}</style>
<h1>{0}</h1>
<p>A stand-in without a model wrote this page in its sandbox. It writes the same page for every prompt.</p>
</html>
"""

def say(event, **data):
    print(json.dumps({"ev": event, "data": data}), flush=True)

def write(content):
    with open(PAGE, "w", encoding="utf-8", errors="replace") as file:
        file.write(content)

def is_served():
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", PORT)) == 0

server = None

def serve():
    global server
    if server is not None and server.poll() is None:
        return
    if is_served():
        raise OSError(f"another program listens on port {PORT}")
    server = subprocess.Popen(COMMAND.split()[:-1], cwd=FOLDER, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not is_served():
        if server.poll() is not None:
            raise OSError(f"the server ended with status {server.returncode}")
        time.sleep(0.02)

def plan(finished):
    states = ["completed"] * finished + ["in_progress", "pending"]
    say("plan", entries=[{"content": step, "priority": "medium", "status": state} for step, state in zip(STEPS, states)])

def answer(turn, prompt):
    page = TEXT.format(html.escape(prompt[:500]))
    tools = [("write_file", {"file_path": PAGE, "content": page}, lambda: write(page)), ("run_command", {"command": COMMAND}, serve)]
    say("text_delta", delta=HELLO)
    plan(0)
    for number, (name, given, work) in enumerate(tools, 1):
        say("tool_use", id=f"{turn}.{number}", name=name, input=given)
        try:
            work()
        except OSError as error:
            say("tool_result", toolUseId=f"{turn}.{number}", content=str(error), isError=True)
            return "error"
        say("tool_result", toolUseId=f"{turn}.{number}", content="done", isError=False)
        plan(number)
    say("text_delta", delta=BYE)
    return "success"

say("ready")
if os.path.exists(PAGE):  # of an earlier generation of the sandbox, in which the server ended
    try:
        serve()
    except OSError:
        pass
for line in sys.stdin:
    command = json.loads(line)
    if command["cmd"] == "query":
        say("turn_complete", result=answer(command["turn"], command["prompt"]))
        say("done")
    elif command["cmd"] == "shutdown":
        break
)python";

}  // namespace atl::app
