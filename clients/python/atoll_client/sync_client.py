"""The synchronous client: each call is that of async_client.py or conversations.py, where it is described."""

from __future__ import annotations

import ssl
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from .async_client import make_core
from .blocking import BlockingNetwork, run
from .conversations import AsyncConversation, AsyncConversations, AsyncPermissions
from .core import OnRetry
from .encoding import Shown
from .executions import AsyncExecutes, AsyncExecution, AsyncExecutions
from .models import Answer, Content, ConversationInfo, Event, NetworkSettings, Token, Turn
from .retry import StreamStatus
from .sandboxes import AsyncSandbox, AsyncSandboxes, AsyncTools
from .secrets import AsyncSecrets
from .sync_executions import Executes, Execution, Executions
from .sync_sandbox import Owned, Sandbox, Sandboxes, Tools
from .sync_stream import SyncEventStream, SyncStream


class Permissions(Shown):
    """Answers to the events `permission_request` of the open turn."""

    def __init__(self, inner: AsyncPermissions) -> None:
        self._inner = inner

    def answer(self, permission_id: str, option_id: Optional[str] = None, timeout: Optional[float] = None) -> None:
        """With one of the options, or with none: cancelled. AtollError `not_found` where it was decided already."""
        run(self._inner.answer(permission_id, option_id, timeout=timeout))


class Conversation(Owned):
    """A conversation. `info` is what the server said last; `refresh()` asks again. `with` deletes it at the end.

    A token opens `follow`, `events` and `transcript`, and one of scope `chat` also `ask`, `send`, `send_stream`, `interrupt` and `permissions`.
    The other calls need a key.
    """

    _inner: AsyncConversation

    def __init__(self, inner: AsyncConversation) -> None:
        self._inner = inner
        self.id = inner.id

    @property
    def info(self) -> ConversationInfo:
        return self._inner.info

    @property
    def permissions(self) -> Permissions:
        return Permissions(self._inner.permissions)

    def refresh(self, timeout: Optional[float] = None) -> ConversationInfo:
        return run(self._inner.refresh(timeout=timeout))

    def sandbox(self, timeout: Optional[float] = None) -> Sandbox:
        """The sandbox of this conversation: commands, files, processes, tools."""
        return Sandbox(run(self._inner.sandbox(timeout=timeout)))

    def preview_url(self, port: Optional[int] = None, timeout: Optional[float] = None) -> Optional[str]:
        """The address at which a browser sees a port, by default the first of those that are shown; None where it has none. Another one than the
        first has its address once something listens there. A private preview needs `create_token("preview").url`.
        """
        return run(self._inner.preview_url(port, timeout=timeout))

    def send(self, content: Content, idempotency_key: Optional[str] = None, timeout: Optional[float] = None) -> Turn:
        """Starts a turn and does not wait for it. Sent again, with the same key, where the answer was lost."""
        return run(self._inner.send(content, idempotency_key, timeout=timeout))

    def ask(self, content: Content, idempotency_key: Optional[str] = None, timeout: Optional[float] = None) -> Answer:
        """Starts a turn and waits for its end, also over connections that break. With a key of your own, asked again after whatever
        failed, it joins the turn that is there, and starts no second one.
        """
        return run(self._inner.ask(content, idempotency_key, timeout))

    def send_stream(self, content: Content, idempotency_key: Optional[str] = None, timeout: Optional[float] = None) -> SyncEventStream:
        """Starts a turn: its events, each once, up to `done`, also over connections that break."""
        return SyncEventStream(self._inner.send_stream(content, idempotency_key, timeout=timeout))

    def follow(
        self,
        after: Union[int, str] = 0,
        max_failures: Optional[int] = None,
        on_reset: Optional[Callable[[], Any]] = None,
        timeout: Optional[float] = None,
        on_gap: Optional[Callable[[int, int], Any]] = None,
        on_status: Optional[Callable[[StreamStatus], Any]] = None,
    ) -> SyncEventStream:
        """Every event after `after`, each once, until the conversation is over. `after` is that of a stream or an event,
        which says of which log it is. A plain number is taken to be of the present log: after a restored backup, events may be
        skipped in silence.

        Connects again after whatever ended a connection. `max_failures` bounds how often in a row it does in vain; the error is
        raised then. `on_status` is told when the stream is live, and when it waits for the next try, and why. Where the log begins
        later than `after`, the numbers have a gap: `on_gap(last, next)` is told those before and behind it. Where it is another log,
        as after a restored backup, `on_reset` is called and it follows from its beginning; without `on_reset` that is AtollError
        `log_replaced`.
        """
        return SyncEventStream(self._inner.follow(after, max_failures, on_reset, timeout, on_gap, on_status), is_endless=True)

    def events(self, after: Union[int, str] = 0, limit: Optional[int] = None, timeout: Optional[float] = None) -> SyncStream[Event]:
        """The events that are there now; `limit` is of a page."""
        return SyncStream(self._inner.events(after, limit, timeout=timeout))

    def interrupt(self, timeout: Optional[float] = None) -> "Conversation":
        """Asks the open turn to end; AtollError `no_turn` where there is none. With a token `info` stays as it was."""
        run(self._inner.interrupt(timeout=timeout))
        return self

    def decide_egress(self, request_id: str, decision: str, timeout: Optional[float] = None) -> None:
        """Decides on a host that a program inside asks for: `request_id` is `data["id"]` of the event `egress_request`, `decision` is `once`,
        `always` (which adds the host and the port to `network.allow`) or `deny`. Needs a key. AtollError `not_found` where it waits no longer."""
        run(self._inner.decide_egress(request_id, decision, timeout=timeout))

    def pause(self, mode: Optional[str] = None, timeout: Optional[float] = None) -> "Conversation":
        """`mode` is `cold` (the sandbox ends, its files stay) or `warm` (it is frozen)."""
        run(self._inner.pause(mode, timeout=timeout))
        return self

    def resume(self, timeout: Optional[float] = None) -> "Conversation":
        run(self._inner.resume(timeout=timeout))
        return self

    def update(self, *, timeout: Optional[float] = None, **changes: Any) -> "Conversation":
        """Changes `title` (None removes it), `limits`, `idle_seconds`, `ttl_seconds`, `preview`, `tools`, `metadata` (a merge patch) and `network` (as a whole)."""
        run(self._inner.update(timeout=timeout, **changes))
        return self

    def delete(self, timeout: Optional[float] = None) -> None:
        """The conversation with its sandbox, its files and its log."""
        run(self._inner.delete(timeout=timeout))

    def create_token(self, scope: str = "read", ttl_seconds: Optional[int] = None, timeout: Optional[float] = None) -> Token:
        """A token of this conversation for a browser or another client; `scope` is `read`, `chat`, `files`, …"""
        return run(self._inner.create_token(scope, ttl_seconds, timeout=timeout))

    def transcript(self, format: str = "markdown", timeout: Optional[float] = None) -> str:
        """The log as a text to keep; `format` is `markdown` or `jsonl`."""
        return run(self._inner.transcript(format, timeout=timeout))


class Conversations(Shown):
    def __init__(self, inner: AsyncConversations) -> None:
        self._inner = inner

    def create(
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
    ) -> Conversation:
        """A conversation whose sandbox is ready. `more` are other members of the request, as `preview`."""
        return Conversation(
            run(
                self._inner.create(
                    agent, title, user_id, metadata, env, limits, network, idle_seconds, ttl_seconds, idempotency_key, timeout, **more
                )
            )
        )

    def get(self, conversation_id: str, timeout: Optional[float] = None) -> Conversation:
        return Conversation(run(self._inner.get(conversation_id, timeout=timeout)))

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
    ) -> SyncStream[Conversation]:
        """All that fit, over all pages; `limit` is of a page. `more`: `created_after` and the like."""
        return SyncStream(self._inner.list(status, user_id, sandbox_id, agent, metadata, order, limit, timeout, **more), Conversation)

    def update(self, conversation_id: str, *, timeout: Optional[float] = None, **changes: Any) -> Conversation:
        return Conversation(run(self._inner.update(conversation_id, timeout=timeout, **changes)))

    def delete(self, conversation_id: str, timeout: Optional[float] = None) -> None:
        run(self._inner.delete(conversation_id, timeout=timeout))

    def erase_user(self, user_id: str, timeout: Optional[float] = None) -> Dict[str, int]:
        """Removes all that the server keeps of a user; how many `conversations` and `sandboxes` that were."""
        return run(self._inner.erase_user(user_id, timeout=timeout))

    def create_token(
        self, conversation_id: str, scope: str = "read", ttl_seconds: Optional[int] = None, timeout: Optional[float] = None
    ) -> Token:
        return run(self._inner.create_token(conversation_id, scope, ttl_seconds, timeout=timeout))

    def transcript(self, conversation_id: str, format: str = "markdown", timeout: Optional[float] = None) -> str:
        return run(self._inner.transcript(conversation_id, format, timeout=timeout))


class Secrets(Shown):
    """`user_id` names the user whose secrets are meant; without it they are the operator's, or those of the key's user."""

    def __init__(self, inner: AsyncSecrets) -> None:
        self._inner = inner

    def put(
        self, name: str, value: str, hosts: Sequence[str], user_id: Optional[str] = None, timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """Stores a value for requests to these hosts, in the place of one of the same name and owner."""
        return run(self._inner.put(name, value, hosts, user_id, timeout=timeout))

    def get(self, name: str, user_id: Optional[str] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
        """`name`, `hosts`, `userId`, `updatedAt` and `usable`: all but the value."""
        return run(self._inner.get(name, user_id, timeout=timeout))

    def list(self, user_id: Optional[str] = None, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        return run(self._inner.list(user_id, timeout=timeout))

    def delete(self, name: str, user_id: Optional[str] = None, timeout: Optional[float] = None) -> None:
        run(self._inner.delete(name, user_id, timeout=timeout))


class Atoll(Executes):
    """A server; threads may share it.

    `base_url` is `http://…`, `https://…` or `unix:/path/of/socket`; without it ATOLL_URL of the environment. Give `api_key`, or the `token`
    of a conversation or sandbox; without both ATOLL_API_KEY is taken. `renew_token()` returns a new token when one has expired, and the first one where none is given. `timeout` is in
    seconds of silence; each call takes one of its own, too, and those that may take the server's 15 minutes have 16 by default.
    `retries` bounds how often a request is tried again, which happens only where it cannot take effect twice.
    `on_retry(error, seconds)` is told before each wait for another try, of streams, too; the logger `atoll_client` tells the same.
    """

    def __init__(
        self,
        base_url: Optional[str] = None,
        api_key: Optional[str] = None,
        token: Optional[str] = None,
        renew_token: Optional[Callable[[], str]] = None,
        timeout: float = 60.0,
        retries: int = 2,
        ssl_context: Optional[ssl.SSLContext] = None,
        on_retry: Optional[OnRetry] = None,
    ) -> None:
        self._core = make_core(BlockingNetwork(ssl_context), base_url, api_key, token, renew_token, timeout, retries, on_retry)
        self.conversations = Conversations(AsyncConversations(self._core))
        self.sandboxes = Sandboxes(AsyncSandboxes(self._core))
        self.tools = Tools(AsyncTools(self._core, None))
        self.executions = Executions(AsyncExecutions(self._core))
        self.secrets = Secrets(AsyncSecrets(self._core))
        self._executes = AsyncExecutes(self._core, "/v1/execute")

    def conversation(self, conversation_id: str) -> Conversation:
        """A conversation by its id, without asking the server: what a token opens."""
        return Conversation(AsyncConversation(self._core, conversation_id))

    def sandbox(self, sandbox_id: str) -> Sandbox:
        return Sandbox(AsyncSandbox(self._core, sandbox_id))

    def execution(self, execution_id: str) -> Execution:
        """A run of a program by its id, without asking the server."""
        return Execution(AsyncExecution(self._core, execution_id))

    def _place(self) -> str:
        return str(self._core.address)

    def system(self, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Facts about the server, and the limits that its host enforces."""
        return run(self._core.call("GET", "/v1/system", timeout=timeout))

    def close(self) -> None:
        """Closes idle connections, and ends streams and attached processes that are open, also where another thread waits for them:
        what is incomplete then (a list, a file, the output of a command, a turn) is AtollError `closed`, and so is a stream that is begun
        later. A request in another thread goes on to its end.
        """
        self._core.close()

    def __enter__(self) -> "Atoll":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
