"""JSON without the looseness: no duplicate keys, no NaN, no surrogates, bounded depth."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn

from d4explain.contracts.errors import InvalidInput


def loads(data: bytes | str, pointer: str = "") -> object:
    """Parses or raises InvalidInput; what the caller sent is never echoed."""
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        text.encode("utf-8")  # a lone surrogate in a str fails here
        value: object = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_number
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # an escaped one fails here
    except _Refused as refused:
        raise InvalidInput(str(refused), pointer) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"not valid JSON: {error.msg} at {place}", pointer) from None
    except UnicodeError:
        raise InvalidInput("not valid UTF-8", pointer) from None
    except RecursionError:
        raise InvalidInput("nested too deeply", pointer) from None
    except ValueError:  # an integer with thousands of digits
        raise InvalidInput("contains a number that is too large", pointer) from None
    return value


class _Refused(Exception):  # noqa: N818 - never leaves this module
    pass


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise _Refused(f"the key {twice[:80]!r} appears twice in one object")
    return result


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Refused("contains a number that is too large")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON number; numbers must be finite")
