from __future__ import annotations

import json
import random

import pytest

from service.graph_io.json_parts import JsonPart

LEAVES = [1, None, True, -2.5e-7, "a,b", "[{", '\\"', "\\\\", '"', "\\", 'é,"}', ""]


def document(rng, depth=0):
    kind = rng.random()
    if depth > 4 or kind < 0.4:
        return rng.choice(LEAVES)
    if kind < 0.7:
        return [document(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {f"k{i}": document(rng, depth + 1) for i in range(rng.randrange(5))}


def assert_same(part, value):
    assert json.loads(part.text) == value
    if isinstance(value, list):
        elements = part.elements()
        assert len(elements) == len(value)
        for element, expected in zip(elements, value, strict=True):
            assert_same(element, expected)
        for size in (1, 10, 1000):
            assert [one for batch in part.batches(size) for one in json.loads(batch)] == value
    if isinstance(value, dict):
        members = part.members()
        assert list(members) == list(value)
        for name, member in members.items():
            assert_same(member, value[name])


@pytest.mark.parametrize("style", [{}, {"indent": 1}, {"ensure_ascii": False}])
def test_parts_match_a_parser(style):
    rng = random.Random(0)
    for _ in range(200):
        value = document(rng)
        assert_same(JsonPart.whole(json.dumps(value, **style).encode()), value)


@pytest.mark.parametrize("shift", range(4))
def test_parts_beyond_the_first_chunk(shift):
    """Strings, escapes and depth continue across chunks."""
    long = "x" * (2**18 - 8 - shift) + '\\"\\\\",[{'
    value = [[long, {"a": [long]}], long, 3]
    assert_same(JsonPart.whole(json.dumps(value).encode()), value)


def test_batches_have_about_the_requested_size():
    part = JsonPart.whole(json.dumps(list(range(1000))).encode())
    lengths = [len(batch) for batch in part.batches(100)]
    assert max(lengths) <= 102
    assert min(lengths[:-1]) > 80
