#!/usr/bin/env python3
"""A chat on the command line.

    chat.py create [--agent AGENT]     makes a conversation, prints its id
    chat.py send ID TEXT               sends a message and does not wait
    chat.py stream ID TEXT             sends a message and prints the answer as it comes
    chat.py follow ID [--after SEQ]    prints every event as a line of JSON until the conversation is over
    chat.py talk ID                    sends each line of its input, and prints the answers

ATOLL_URL (http://127.0.0.1:4100) and ATOLL_API_KEY say where the server is and what opens it.
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

# From the source tree; not needed where the package is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from atoll_client import Atoll, AtollError


def print_answer(events):
    """The text as it comes, and what went wrong. True if nothing did."""
    went_well = True
    for event in events:
        if event.text:
            print(event.text, end="", flush=True)
        elif event.type == "error":
            print(f"{event.data.get('code')}: {event.data.get('message')}", file=sys.stderr)
            went_well = False
    return went_well


def talk(conversation):
    for line in sys.stdin:
        if line.strip():
            print_answer(conversation.send_stream(line.rstrip("\n")))
    return True


def obey(client, given):
    if given.command == "create":
        print(client.conversations.create(agent=given.agent).id)
        return True
    conversation = client.conversation(given.id)
    if given.command == "send":
        turn = conversation.send(given.text)
        print(f"{turn.turn} after {turn.after}")
        return True
    if given.command == "stream":
        return print_answer(conversation.send_stream(given.text))
    if given.command == "talk":
        return talk(conversation)
    for event in conversation.follow(given.after):
        print(json.dumps(dataclasses.asdict(event)), flush=True)
    return True


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("create").add_argument("--agent")
    for name in ("send", "stream", "follow", "talk"):
        command = commands.add_parser(name)
        command.add_argument("id")
        if name in ("send", "stream"):
            command.add_argument("text")
        elif name == "follow":
            command.add_argument("--after", default="0", help="SEQ or SEQ-EPOCH")
    return parser.parse_args()


def main():
    given = arguments()
    url = os.environ.get("ATOLL_URL", "http://127.0.0.1:4100")
    key = os.environ.get("ATOLL_API_KEY")
    if not key:
        print("set ATOLL_API_KEY", file=sys.stderr)
        return 2
    try:
        with Atoll(url, api_key=key) as client:
            return 0 if obey(client, given) else 1
    except AtollError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        pass
    return 2


if __name__ == "__main__":
    sys.exit(main())
