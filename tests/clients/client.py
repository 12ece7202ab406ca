"""A WebSocket client made of the package websockets: obeys JSON lines on stdin, writes its events to stdout.

Runs with websockets 10 (Debian 12, Ubuntu 24.04) and with those from 14 on, whose names for some things are others.
"""

import asyncio
import inspect
import json
import sys

import websockets

LINE_BYTES = 8 * 1024 * 1024


def say(said, **what):
    print(json.dumps({"said": said, **what}), flush=True)


def header_argument():
    parameters = inspect.signature(websockets.connect).parameters
    return "additional_headers" if "additional_headers" in parameters else "extra_headers"


def extension_names(socket):
    extensions = socket.extensions if hasattr(socket, "extensions") else socket.protocol.extensions
    return ", ".join(extension.name for extension in extensions)


async def commands():
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


async def receive(socket):
    try:
        while True:
            say("text", data=await socket.recv())
    except websockets.ConnectionClosed as closed:
        frame = closed.rcvd
        say("closed", code=frame.code if frame else 1006, reason=frame.reason if frame else "")


async def pieces(parts):
    for part in parts:
        yield part


async def open_socket(command):
    options = {header_argument(): command["headers"], "max_size": None}
    if command["protocols"]:
        options["subprotocols"] = command["protocols"]
    try:
        socket = await websockets.connect(command["url"], **options)
    except (websockets.InvalidHandshake, OSError) as error:
        response = getattr(error, "response", None)
        status = response.status_code if response else getattr(error, "status_code", None)
        body = response.body.decode() if response and response.body else ""
        say("refused", status=status, body=body)
        return None
    say("open", protocol=socket.subprotocol or "", extensions=extension_names(socket))
    return socket


async def obey(socket, command):
    try:
        if command["do"] == "send":
            parts = command["parts"]
            await socket.send(parts[0] if len(parts) == 1 else pieces(parts))
        elif command["do"] == "bytes":
            await socket.send(bytes(command["bytes"]))
        elif command["do"] == "close":
            await socket.close()
    except websockets.ConnectionClosed:
        pass  # receive() tells it


async def main():
    socket = receiving = None
    async for command in commands():
        if command["do"] == "open":
            socket = await open_socket(command)
            if socket is None:
                return
            receiving = asyncio.create_task(receive(socket))
        else:
            await obey(socket, command)
            if command["do"] == "close":
                break
    if receiving is not None:
        await receiving


asyncio.run(main())
