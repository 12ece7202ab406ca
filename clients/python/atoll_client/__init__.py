"""Client of Atoll: `Atoll` blocks, `AsyncAtoll` is for asyncio. Python 3.9 or later, standard library only."""

from .async_client import AsyncAtoll
from .conversations import AsyncConversation
from .core import VERSION as __version__
from .core import Stream
from .encoding import Record
from .errors import AtollConnectionError, AtollError
from .executions import AsyncExecution, ExecutionCall, ExecutionResult, ToolDeclarations
from .following import EventStream
from .models import Answer, ConversationInfo, Event, ExecOutput, ExecResult, FileEntry, NetworkObject, NetworkRoute, NetworkSettings, ProcessFrame
from .models import ProcessInfo, ProcessOutput, SandboxInfo, Token, ToolResult, Turn
from .processes import AsyncAttachment, AsyncTerminal
from .retry import StreamStatus
from .sandboxes import AsyncSandbox
from .sync_client import Atoll, Conversation
from .sync_executions import Execution
from .sync_sandbox import Attachment, Sandbox, Terminal
from .sync_stream import SyncEventStream, SyncStream
from .websocket import WebSocketClosed

__all__ = [
    "Answer",
    "AsyncAtoll",
    "AsyncAttachment",
    "AsyncConversation",
    "AsyncExecution",
    "AsyncSandbox",
    "AsyncTerminal",
    "Atoll",
    "AtollConnectionError",
    "AtollError",
    "Attachment",
    "Conversation",
    "ConversationInfo",
    "Event",
    "EventStream",
    "ExecOutput",
    "ExecResult",
    "Execution",
    "ExecutionCall",
    "ExecutionResult",
    "FileEntry",
    "NetworkObject",
    "NetworkRoute",
    "NetworkSettings",
    "ProcessFrame",
    "ProcessInfo",
    "ProcessOutput",
    "Record",
    "Sandbox",
    "SandboxInfo",
    "Stream",
    "StreamStatus",
    "SyncEventStream",
    "SyncStream",
    "Terminal",
    "Token",
    "ToolDeclarations",
    "ToolResult",
    "Turn",
    "WebSocketClosed",
    "__version__",
]
