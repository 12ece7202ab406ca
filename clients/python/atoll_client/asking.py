"""Messages and interrupts over the WebSocket of a conversation, for a client that has a token and no key."""

from __future__ import annotations

from typing import Any, Dict

from .core import Core, prepare
from .encoding import new_idempotency_key
from .errors import AtollConnectionError, AtollError
from .retry import Follower, Step
from .websocket import WebSocket, WebSocketClosed

# A frame is sent over another connection so often in a row.
ASK_FAILURES = 8
# Close codes after which another connection makes sense: the server ends or failed, the token, the position in the log.
_PASSING = (1001, 1006, 1011, 4401, 4410)


class Asker:
    """Sends each frame over a connection of its own. `seen` is the cursor of the last event that has come over one."""

    def __init__(self, core: Core, path: str) -> None:
        self._core = core
        self._path = path
        self.seen = "0"

    async def ask(self, frame: Dict[str, Any]) -> Dict[str, Any]:
        """The server's `accepted`. Raises AtollError with the code of `rejected`.

        A message must have an `idempotencyKey`: it is sent again where a connection broke before the answer. An interrupt is
        not, since it might stop a later turn.
        """
        frame = {**frame, "id": new_idempotency_key()}
        follower = Follower(self.seen, self._core.credentials.can_renew, ASK_FAILURES, on_reset=lambda: None)
        while True:
            try:
                answer = await self._ask_once(frame, follower)
                break
            except AtollError as error:
                failure = error
            is_lost = isinstance(failure, AtollConnectionError) and failure.was_sent
            is_final = isinstance(failure, WebSocketClosed) and failure.number not in _PASSING
            step = follower.ended(failure)
            if is_final or step is Step.STOP or is_lost and frame["type"] != "message":
                raise failure
            await prepare(self._core, follower, step, failure)
        self.seen = follower.cursor
        if answer["type"] == "rejected":
            raise AtollError(0, str(answer.get("code")), str(answer.get("detail") or ""))
        return answer

    async def _ask_once(self, frame: Dict[str, Any], follower: Follower) -> Dict[str, Any]:
        try:
            socket = await WebSocket.open(self._core, self._path, {"after": follower.cursor})
        except AtollConnectionError as error:
            error.was_sent = False  # the frame was not
            raise
        try:
            await socket.send_object(frame)
            while True:
                message = await socket.receive()
                if isinstance(message, bytes):
                    continue
                if message.get("type") in ("accepted", "rejected"):
                    # One without an id is for a frame that could not be read, and there is no other frame.
                    if message.get("id", frame["id"]) == frame["id"]:
                        await socket.aclose()
                        return message
                elif "seq" in message:
                    follower.accept(message)
        except BaseException:
            socket.abandon()
            raise
