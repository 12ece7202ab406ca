"""The asynchronous client."""

from __future__ import annotations

import os
import ssl
from typing import Any, Callable, Dict, Optional

from .conversations import AsyncConversation, AsyncConversations
from .core import Core, Credentials, OnRetry
from .encoding import parse_address
from .executions import AsyncExecutes, AsyncExecution, AsyncExecutions
from .on_asyncio import AsyncNetwork
from .sandboxes import AsyncSandbox, AsyncSandboxes, AsyncTools
from .secrets import AsyncSecrets
from .transport import Network


def make_core(
    network: Network,
    base_url: Optional[str],
    api_key: Optional[str],
    token: Optional[str],
    renew: Optional[Callable[[], Any]],
    timeout: float,
    retries: int,
    on_retry: Optional[OnRetry],
) -> Core:
    base_url = base_url or os.environ.get("ATOLL_URL")
    if not base_url:
        raise ValueError("which server? Give base_url, or set ATOLL_URL")
    if api_key is None and token is None and renew is None:
        api_key = os.environ.get("ATOLL_API_KEY") or None
    return Core(parse_address(base_url), Credentials(api_key, token, renew), network, timeout, retries, on_retry)


class AsyncAtoll(AsyncExecutes):
    """A server. One event loop at a time, or several, may use it: each connection stays with the loop that opened it.

    `base_url` is `http://…`, `https://…` or `unix:/path/of/socket`; without it ATOLL_URL of the environment. Give `api_key`, or the `token`
    of a conversation or sandbox; without both ATOLL_API_KEY is taken. `renew_token()`, which may be a coroutine function, returns a
    new token when one has expired, and the first one where none is given. `timeout` is in seconds of silence; each call takes one of its own, too, and those
    that may take the server's 15 minutes have 16 by default. `retries` bounds how often a request is tried again, which
    happens only where it cannot take effect twice. `on_retry(error, seconds)` is told before each wait for another try, of
    streams, too; the logger `atoll_client` tells the same.
    """

    def __init__(
        self,
        base_url: Optional[str] = None,
        api_key: Optional[str] = None,
        token: Optional[str] = None,
        renew_token: Optional[Callable[[], Any]] = None,
        timeout: float = 60.0,
        retries: int = 2,
        ssl_context: Optional[ssl.SSLContext] = None,
        on_retry: Optional[OnRetry] = None,
    ) -> None:
        core = make_core(AsyncNetwork(ssl_context), base_url, api_key, token, renew_token, timeout, retries, on_retry)
        super().__init__(core, "/v1/execute")
        self.conversations = AsyncConversations(self._core)
        self.sandboxes = AsyncSandboxes(self._core)
        self.tools = AsyncTools(self._core, None)
        self.executions = AsyncExecutions(self._core)
        self.secrets = AsyncSecrets(self._core)

    def conversation(self, conversation_id: str) -> AsyncConversation:
        """A conversation by its id, without asking the server: what a token opens."""
        return AsyncConversation(self._core, conversation_id)

    def sandbox(self, sandbox_id: str) -> AsyncSandbox:
        return AsyncSandbox(self._core, sandbox_id)

    def execution(self, execution_id: str) -> AsyncExecution:
        """A run of a program by its id, without asking the server."""
        return AsyncExecution(self._core, execution_id)

    def _place(self) -> str:
        return str(self._core.address)

    async def system(self, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Facts about the server, and the limits that its host enforces."""
        return await self._core.call("GET", "/v1/system", timeout=timeout)

    async def aclose(self) -> None:
        """Closes idle connections. Streams that are open go on: cancel the tasks that read them."""
        self._core.close()

    async def __aenter__(self) -> "AsyncAtoll":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
