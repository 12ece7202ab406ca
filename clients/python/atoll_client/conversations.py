"""Conversations, asynchronous: making and finding them, talking in them, following their events."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Callable, Dict, Mapping, Optional, Union

from .core import AsyncOwned, Core, Request, Stream
from .encoding import Shown, camel, given, new_idempotency_key, segment
from .following import EventStream, OneTurn, follow_events
from .models import Answer, Content, ConversationInfo, Event, Gathering, NetworkSettings, Token, Turn, preview_address
from .retry import Follower, StreamStatus
from .sandboxes import AsyncSandbox

ROUTE = "/v1/conversations"
# A turn's stream is opened again so often in a row before its error is the caller's.
TURN_FAILURES = 8


def route(conversation_id: str, *rest: str) -> str:
    return "/".join([ROUTE, segment(conversation_id), *rest])


def turn_stream(
    core: Core, conversation_id: str, content: Content, idempotency_key: Optional[str], timeout: Optional[float]
) -> EventStream:
    key = idempotency_key or new_idempotency_key()
    follower = Follower(0, core.credentials.can_renew, TURN_FAILURES)

    def request() -> Request:
        if follower.after:
            return Request("GET", route(conversation_id, "events"), {"after": follower.cursor}, timeout=timeout)
        # With the same key the server gives the same turn again.
        return Request("POST", route(conversation_id, "messages"), json={"content": content}, idempotency_key=key, timeout=timeout)

    return EventStream(core, follow_events(core, follower, request, OneTurn()), follower)


class AsyncPermissions(Shown):
    """Answers to the events `permission_request` of the open turn."""

    def __init__(self, core: Core, conversation_id: str) -> None:
        self._core = core
        self._id = conversation_id

    async def answer(self, permission_id: str, option_id: Optional[str] = None, timeout: Optional[float] = None) -> None:
        """With one of the options, or with none: cancelled. AtollError `not_found` where it was decided already."""
        body = {"outcome": "cancelled"} if option_id is None else {"optionId": option_id}
        await self._core.call("POST", route(self._id, "permissions", segment(permission_id)), json=body, timeout=timeout)


class AsyncConversation(AsyncOwned):
    """A conversation. `info` is what the server said last; `await refresh()` asks again. `async with` deletes it at the end.

    A token opens `follow`, `events` and `transcript`, and one of scope `chat` also `ask`, `send`, `send_stream`, `interrupt` and `permissions`.
    The other calls need a key.
    """

    def __init__(self, core: Core, conversation_id: str, info: Optional[ConversationInfo] = None) -> None:
        self._core = core
        self.id = conversation_id
        self.info = info or ConversationInfo()

    def __repr__(self) -> str:
        return f"<conversation {self.id}: {self.info.get('status', 'not asked for')}>"

    @property
    def permissions(self) -> AsyncPermissions:
        return AsyncPermissions(self._core, self.id)

    async def refresh(self, timeout: Optional[float] = None) -> ConversationInfo:
        self.info = await self._core.call("GET", route(self.id), timeout=timeout)
        return self.info

    async def sandbox(self, timeout: Optional[float] = None) -> AsyncSandbox:
        """The sandbox of this conversation: commands, files, processes, tools."""
        if "sandboxId" not in self.info:
            await self.refresh(timeout=timeout)
        return AsyncSandbox(self._core, self.info["sandboxId"])

    async def preview_url(self, port: Optional[int] = None, timeout: Optional[float] = None) -> Optional[str]:
        """The address at which a browser sees a port, by default the first of those that are shown; None where it has none. Another one than the
        first has its address once something listens there. A private preview needs `create_token("preview").url`.
        """
        return preview_address(await self.refresh(timeout=timeout), port)

    async def send(self, content: Content, idempotency_key: Optional[str] = None, timeout: Optional[float] = None) -> Turn:
        """Starts a turn and does not wait for it. Sent again, with the same key, where the answer was lost."""
        key = idempotency_key or new_idempotency_key()
        answer = await self._core.call("POST", route(self.id, "messages"), json={"content": content}, idempotency_key=key, timeout=timeout)
        return Turn(answer["turn"], answer["after"])

    def send_stream(self, content: Content, idempotency_key: Optional[str] = None, timeout: Optional[float] = None) -> EventStream:
        """Starts a turn: its events, each once, up to `done`, also over connections that break."""
        return turn_stream(self._core, self.id, content, idempotency_key, timeout=timeout)

    def follow(
        self,
        after: Union[int, str] = 0,
        max_failures: Optional[int] = None,
        on_reset: Optional[Callable[[], Any]] = None,
        timeout: Optional[float] = None,
        on_gap: Optional[Callable[[int, int], Any]] = None,
        on_status: Optional[Callable[[StreamStatus], Any]] = None,
    ) -> EventStream:
        """Every event after `after`, each once, until the conversation is over. `after` is that of a stream or an event,
        which says of which log it is. A plain number is taken to be of the present log: after a restored backup, events may be
        skipped in silence.

        Connects again after whatever ended a connection. `max_failures` bounds how often in a row it does in vain; the error is
        raised then. `on_status` is told when the stream is live, and when it waits for the next try, and why. Where the log begins
        later than `after`, the numbers have a gap: `on_gap(last, next)` is told those before and behind it. Where it is another log,
        as after a restored backup, `on_reset` is called and it follows from its beginning; without `on_reset` that is AtollError
        `log_replaced`.
        """
        can_renew = self._core.credentials.can_renew
        follower = Follower(after, can_renew, max_failures, on_reset=on_reset, on_gap=on_gap, on_status=on_status)

        def request() -> Request:
            return Request("GET", route(self.id, "events"), {"after": follower.cursor}, timeout=timeout)

        return EventStream(self._core, follow_events(self._core, follower, request), follower)

    def events(self, after: Union[int, str] = 0, limit: Optional[int] = None, timeout: Optional[float] = None) -> Stream[Event]:
        """The events that are there now; `limit` is of a page."""
        return Stream(self._core, self._events(after, limit, timeout=timeout))

    async def ask(self, content: Content, idempotency_key: Optional[str] = None, timeout: Optional[float] = None) -> Answer:
        """Starts a turn and waits for its end, also over connections that break. With a key of your own, asked again after whatever
        failed, it joins the turn that is there, and starts no second one.
        """
        gathering = Gathering()
        stream = self.send_stream(content, idempotency_key, timeout)
        async with stream as events:
            async for event in events:
                gathering.take(event)
        return gathering.answer(stream.after)

    async def _events(self, after: Union[int, str], limit: Optional[int], timeout: Optional[float]) -> AsyncGenerator[Event, None]:
        while True:
            page = await self._core.call("GET", route(self.id, "events"), {"after": after, "limit": limit}, timeout=timeout)
            for frame in page["events"]:
                yield Event.parse(frame, page["logEpoch"])
            if not page["events"]:
                return
            after = f"{page['next']}-{page['logEpoch']}"

    async def _post(self, action: str, body: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> "AsyncConversation":
        # A token is answered without a body.
        self.info = await self._core.call("POST", route(self.id, action), json=body, timeout=timeout) or self.info
        return self

    async def interrupt(self, timeout: Optional[float] = None) -> "AsyncConversation":
        """Asks the open turn to end; AtollError `no_turn` where there is none. With a token `info` stays as it was."""
        return await self._post("interrupt", timeout=timeout)

    async def decide_egress(self, request_id: str, decision: str, timeout: Optional[float] = None) -> None:
        """Decides on a host that a program inside asks for: `request_id` is `data["id"]` of the event `egress_request`, `decision` is `once`,
        `always` (which adds the host and the port to `network.allow`) or `deny`. Needs a key. AtollError `not_found` where it waits no longer."""
        await self._core.call("POST", route(self.id, "egress", segment(request_id)), json={"decision": decision}, timeout=timeout)

    async def pause(self, mode: Optional[str] = None, timeout: Optional[float] = None) -> "AsyncConversation":
        """`mode` is `cold` (the sandbox ends, its files stay) or `warm` (it is frozen)."""
        return await self._post("pause", None if mode is None else {"mode": mode}, timeout=timeout)

    async def resume(self, timeout: Optional[float] = None) -> "AsyncConversation":
        return await self._post("resume", timeout=timeout)

    async def update(self, *, timeout: Optional[float] = None, **changes: Any) -> "AsyncConversation":
        """Changes `title` (None removes it), `limits`, `idle_seconds`, `ttl_seconds`, `preview`, `tools`, `metadata` (a merge patch) and `network` (as a whole)."""
        self.info = await self._core.call("PATCH", route(self.id), json={camel(name): value for name, value in changes.items()}, timeout=timeout)
        return self

    async def delete(self, timeout: Optional[float] = None) -> None:
        """The conversation with its sandbox, its files and its log."""
        await self._core.call("DELETE", route(self.id), timeout=timeout)

    async def create_token(self, scope: str = "read", ttl_seconds: Optional[int] = None, timeout: Optional[float] = None) -> Token:
        """A token of this conversation for a browser or another client; `scope` is `read`, `chat`, `files`, …"""
        answer = await self._core.call("POST", route(self.id, "tokens"), json=given(scope=scope, ttl_seconds=ttl_seconds), timeout=timeout)
        return Token(answer["token"], answer["expiresAt"], answer.get("url"))

    async def transcript(self, format: str = "markdown", timeout: Optional[float] = None) -> str:
        """The log as a text to keep; `format` is `markdown` or `jsonl`."""
        request = Request("GET", route(self.id, "transcript"), {"format": format}, {"Accept": "*/*"}, timeout=timeout)
        return (await (await self._core.open(request)).read_all()).decode("utf-8")


class AsyncConversations(Shown):
    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(
        self,
        agent: Optional[str] = None,
        title: Optional[str] = None,
        user_id: Optional[str] = None,
        metadata: Optional[Dict[str, Any]] = None,
        env: Optional[Dict[str, str]] = None,
        limits: Optional[Dict[str, int]] = None,
        network: Optional[NetworkSettings] = None,
        idle_seconds: Optional[int] = None,
        ttl_seconds: Optional[int] = None,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        **more: Any,
    ) -> AsyncConversation:
        """A conversation whose sandbox is ready. `more` are other members of the request, as `preview`."""
        body = given(
            agent=agent, title=title, user_id=user_id, metadata=metadata, env=env, limits=limits, network=network,
            idle_seconds=idle_seconds, ttl_seconds=ttl_seconds,
        )
        key = idempotency_key or new_idempotency_key()
        info = await self._core.call("POST", ROUTE, json={**body, **given(**more)}, idempotency_key=key, timeout=timeout)
        return AsyncConversation(self._core, info["id"], info)

    async def get(self, conversation_id: str, timeout: Optional[float] = None) -> AsyncConversation:
        info = await self._core.call("GET", route(conversation_id), timeout=timeout)
        return AsyncConversation(self._core, info["id"], info)

    def list(
        self,
        status: Optional[str] = None,
        user_id: Optional[str] = None,
        sandbox_id: Optional[str] = None,
        agent: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        order: Optional[str] = None,
        limit: Optional[int] = None,
        timeout: Optional[float] = None,
        **more: Any,
    ) -> Stream[AsyncConversation]:
        """All that fit, over all pages; `limit` is of a page. `more`: `created_after` and the like."""
        query = given(status=status, user_id=user_id, sandbox_id=sandbox_id, agent=agent, order=order, limit=limit, **more)
        for name, value in (metadata or {}).items():
            query[f"metadata.{name}"] = ("true" if value else "false") if isinstance(value, bool) else value
        return Stream(self._core, self._list(query, timeout=timeout))

    async def _list(self, query: Dict[str, Any], timeout: Optional[float]) -> AsyncGenerator[AsyncConversation, None]:
        async for info in self._core.pages(ROUTE, query, "conversations", timeout):
            yield AsyncConversation(self._core, info["id"], info)  # type: ignore[arg-type]

    async def update(self, conversation_id: str, *, timeout: Optional[float] = None, **changes: Any) -> AsyncConversation:
        return await AsyncConversation(self._core, conversation_id).update(timeout=timeout, **changes)

    async def delete(self, conversation_id: str, timeout: Optional[float] = None) -> None:
        await AsyncConversation(self._core, conversation_id).delete(timeout=timeout)

    async def erase_user(self, user_id: str, timeout: Optional[float] = None) -> Dict[str, int]:
        """Removes all that the server keeps of a user; how many `conversations` and `sandboxes` that were."""
        if not user_id:
            raise ValueError("a user's id is not empty")
        return await self._core.call("DELETE", ROUTE, {"userId": user_id}, timeout=self._core.long(timeout))

    async def create_token(
        self, conversation_id: str, scope: str = "read", ttl_seconds: Optional[int] = None, timeout: Optional[float] = None
    ) -> Token:
        return await AsyncConversation(self._core, conversation_id).create_token(scope, ttl_seconds, timeout=timeout)

    async def transcript(self, conversation_id: str, format: str = "markdown", timeout: Optional[float] = None) -> str:
        return await AsyncConversation(self._core, conversation_id).transcript(format, timeout=timeout)
