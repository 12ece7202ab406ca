"""Secrets, asynchronous: values that the server puts into requests of routes. None comes back."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from .core import Core
from .encoding import Shown, given, segment

ROUTE = "/v1/secrets"


def _route(name: str) -> str:
    if not name:
        raise ValueError("a secret needs its name")
    return f"{ROUTE}/{segment(name)}"


class AsyncSecrets(Shown):
    """`user_id` names the user whose secrets are meant; without it they are the operator's, or those of the key's user."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def put(
        self, name: str, value: str, hosts: Sequence[str], user_id: Optional[str] = None, timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """Stores a value for requests to these hosts, in the place of one of the same name and owner."""
        body = given(value=value, hosts=list(hosts), user_id=user_id)
        return await self._core.call("PUT", _route(name), json=body, timeout=timeout)

    async def get(self, name: str, user_id: Optional[str] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
        """`name`, `hosts`, `userId`, `updatedAt` and `usable`: all but the value."""
        return await self._core.call("GET", _route(name), {"userId": user_id}, timeout=timeout)

    async def list(self, user_id: Optional[str] = None, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        return (await self._core.call("GET", ROUTE, {"userId": user_id}, timeout=timeout))["secrets"]

    async def delete(self, name: str, user_id: Optional[str] = None, timeout: Optional[float] = None) -> None:
        await self._core.call("DELETE", _route(name), {"userId": user_id}, timeout=timeout)
