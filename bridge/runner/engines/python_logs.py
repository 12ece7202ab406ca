"""Log entries of what a program prints, logs and warns: one for each print() or record, bounded in bytes for the run."""

import builtins
import io
import logging
import sys

import python_values

_ENTRY_BYTES = 256 * 1024
_KEPT_CHARS = _ENTRY_BYTES + 1  # one more than an entry may have, which tells what is cut
_CUT = "\u2026 (cut at 256 KiB)".encode()


class Journal:
    """Sends log entries through `send(level, text)` until `max_bytes` are used up, then says so once."""

    def __init__(self, send, max_bytes):
        self._send = send
        self._left = max_bytes
        self._is_cut = False

    def add(self, level, text):
        if self._is_cut:
            return
        raw = python_values.clean_text(text[:_KEPT_CHARS]).encode("utf-8")
        if len(raw) > _ENTRY_BYTES:
            raw = _whole(raw[: _ENTRY_BYTES - len(_CUT)]) + _CUT
        raw = _whole(raw[: self._left])
        self._left -= len(raw) + 16  # an empty entry costs memory, too
        if raw or not text:
            self._send(level, raw.decode("utf-8"))
        if self._left <= 0:
            self._is_cut = True
            self._send("warn", "logs end here: the run has used its bytes for logs")


def _whole(raw):
    """UTF-8 without what is left of a character at its end."""
    return raw.decode("utf-8", "ignore").encode("utf-8")


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of a program: an entry for each line."""

    def __init__(self, journal, level):
        super().__init__()
        self._journal = journal
        self._level = level
        self._kept = []
        self._kept_size = 0

    encoding = "utf-8"

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        *lines, rest = text.split("\n")
        for line in lines:
            self._keep(line)
            self.flush_line()
        self._keep(rest)
        return len(text)

    def entry(self, text, end):
        """Adds the text of a print() as one entry, of as many lines as it has. Without a line end the entry stays open."""
        self._keep(text)
        if end.endswith("\n"):
            self._keep(end[:-1])
            self.flush_line()
        else:
            self._keep(end)

    def _keep(self, text):
        room = _KEPT_CHARS - self._kept_size
        if text and room > 0:
            self._kept.append(text[:room])
            self._kept_size += min(len(text), room)

    def flush_line(self):
        text = "".join(self._kept)
        self._kept, self._kept_size = [], 0
        self._journal.add(self._level, text)

    def finish(self):
        if self._kept:
            self.flush_line()


class _Handler(logging.Handler):
    def __init__(self, journal):
        super().__init__()
        self._journal = journal

    def emit(self, record):
        try:
            text = self.format(record)
        except Exception as error:
            text = f"log record cannot be formatted: {type(error).__name__}"
        self._journal.add(_level(record.levelno), text)


def _level(number):
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warn"
    return "info" if number >= logging.INFO else "debug"


def install(journal):
    """Replaces stdout, stderr and logging. Returns (print for the program, function that ends open lines)."""
    out, err = Stream(journal, "log"), Stream(journal, "error")
    sys.stdout = sys.__stdout__ = out
    sys.stderr = sys.__stderr__ = err
    root = logging.getLogger()
    root.handlers[:] = [_Handler(journal)]
    root.setLevel(logging.DEBUG)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.captureWarnings(True)
    real_print = builtins.print

    def program_print(*values, sep=" ", end="\n", file=None, flush=False):
        """print(): one log entry a call."""
        stream = sys.stdout if file is None else file
        if not isinstance(stream, Stream):
            real_print(*values, sep=sep, end=end, file=stream, flush=flush)
            return
        text = (" " if sep is None else sep).join([str(value) for value in values])
        stream.entry(text, "\n" if end is None else end)

    def finish():
        out.finish()
        err.finish()

    return program_print, finish
