"""Values between a Python program and the host: JSON, and tagged objects for what JSON does not have.

The tags are those of every engine (docs/code-mode-python.md). Encoding refuses by the name of the type, never by
silently turning a value into its repr(); depth and bytes are bounded.
"""

import base64
import dataclasses
import datetime
import json
import math

TAG = "$atoll"
# Levels of JSON in a result or an argument: see realm.mjs.
MAX_DEPTH = 120
MAX_SAFE_INTEGER = 2**53 - 1


class ValueRefused(TypeError):
    """A value that cannot leave the program; the message names its type or the limit."""


def clean_text(text):
    """The text without lone surrogates, which UTF-8 cannot hold."""
    try:
        str.encode(text, "utf-8")
        return str.__str__(text)
    except UnicodeEncodeError:
        return str.encode(text, "utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _tagged(tag, value):
    return {TAG: tag, "value": value}


def _number(value):
    if isinstance(value, int):
        value = int(value)
        if abs(value) <= MAX_SAFE_INTEGER:
            return value
        if value.bit_length() > 8_000_000:
            raise ValueRefused("an int of more than 8,000,000 bits cannot be sent")
        return _tagged("bigint", _decimal(value))
    value = float(value)
    if math.isnan(value):
        return _tagged("number", "NaN")
    if math.isinf(value):
        return _tagged("number", "Infinity" if value > 0 else "-Infinity")
    if value == 0 and math.copysign(1, value) < 0:
        return _tagged("number", "-0")
    return value


def _decimal(value):
    """str(int) without Python's limit of digits (sys.set_int_max_str_digits), by halves."""
    if value < 0:
        return "-" + _decimal(-value)
    if value.bit_length() < 10_000:
        return str(value)
    half = int(value.bit_length() * 0.30103) // 2
    high, low = divmod(value, 10**half)
    return _decimal(high) + _decimal(low).rjust(half, "0")


def _moment(value):
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc)
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return value.isoformat()


class _Walk:
    """The containers that are open, and the bytes left: each value takes at least one, so that no walk is endless."""

    def __init__(self, max_bytes):
        self.open_ids = set()
        self._max_bytes = self._left = max_bytes

    def take(self, count):
        self._left -= count
        if self._left < 0:
            raise ValueRefused(f"more than the {self._max_bytes} bytes allowed")


def _plain(value, depth, walk):
    walk.take(1)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        walk.take(str.__len__(value))
        return clean_text(value)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        walk.take(value.nbytes if isinstance(value, memoryview) else type(value).__len__(value))
        return _tagged("bytes", base64.b64encode(bytes(value)).decode("ascii"))
    if isinstance(value, datetime.date):
        return _tagged("date", _moment(value))
    return _container(value, depth, walk)


def _container(value, depth, walk):
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if not is_record and not isinstance(value, (list, tuple, dict, set, frozenset)):
        raise ValueRefused(f"a value of type {type(value).__name__} cannot be sent")
    if id(value) in walk.open_ids:
        raise ValueRefused(f"a cyclic {type(value).__name__} cannot be sent")
    if depth >= MAX_DEPTH:
        raise ValueRefused(f"a value nested more than {MAX_DEPTH} levels deep cannot be sent")
    walk.open_ids.add(id(value))
    if is_record:
        value_fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        done = _mapping(value_fields, depth + 1, walk)
    elif isinstance(value, dict):
        done = _mapping(value, depth + 1, walk)
    else:
        is_set = isinstance(value, (set, frozenset))
        done = [_plain(item, depth + 2 if is_set else depth + 1, walk) for item in value]
        if is_set:
            done = {TAG: "set", "values": done}
    walk.open_ids.discard(id(value))
    return done


def _mapping(value, depth, walk):
    if all(isinstance(key, str) for key in value):
        inner = depth + 1 if TAG in value else depth
        done = {clean_text(key): _plain(item, inner, walk) for key, item in value.items()}
        return _tagged("object", done) if TAG in done else done
    inner = depth + 2
    entries = [[_plain(key, inner, walk), _plain(item, inner, walk)] for key, item in value.items()]
    return {TAG: "map", "entries": entries}


def encode(value, max_bytes, what):
    """The JSON form of a value. Raises ValueRefused, naming `what`, for a type, a cycle, the depth or the bytes."""
    return _encode(value, 0, max_bytes, what)


def encode_arguments(args, max_bytes, what):
    """The same for the list of a call's arguments, which is no level of theirs."""
    return _encode(args, -1, max_bytes, what)


def _encode(value, depth, max_bytes, what):
    try:
        plain = _plain(value, depth, _Walk(max_bytes))
        size = len(json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))
    except ValueRefused as error:
        raise ValueRefused(f"{what}: {error}") from None
    except RecursionError:
        raise ValueRefused(f"{what}: nested too deep") from None
    if size > max_bytes:
        raise ValueRefused(f"{what}: {size} bytes are more than the {max_bytes} bytes allowed")
    return plain


def decode(value):
    """The Python value of a JSON form that the host sent. Unknown tags stay dicts. Raises for a tag whose value is malformed."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = value.get(TAG)
    if not isinstance(tag, str):
        return {key: decode(item) for key, item in value.items()}
    if tag == "map":
        return {_hashable(decode(key)): decode(item) for key, item in value["entries"]}
    if tag == "set":
        return {_hashable(decode(item)) for item in value["values"]}
    return _untagged(tag, value)


def _integer(text):
    """int(text) without Python's limit of digits, by halves."""
    if text.startswith("-"):
        return -_integer(text[1:])
    if not (text.isascii() and text.isdigit()):
        raise ValueError("a bigint that is no number")
    if len(text) <= 4000:
        return int(text)
    half = len(text) // 2
    return _integer(text[:-half]) * 10**half + _integer(text[-half:])


def _untagged(tag, value):
    inner = value.get("value")
    if tag == "undefined":
        return None
    if tag == "bigint":
        return _integer(inner)
    if tag == "bytes":
        return base64.b64decode(inner, validate=True)
    if tag == "date":
        return datetime.datetime.fromisoformat(inner)
    if tag == "number":
        if inner not in ("NaN", "-0", "Infinity", "-Infinity"):
            raise ValueError("a number that JSON has")
        return float(inner.replace("Infinity", "inf"))
    if tag == "object":
        return {key: decode(item) for key, item in inner.items()}
    return {key: decode(item) for key, item in value.items()}


def _hashable(value):
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, set):
        return frozenset(value)
    return value
