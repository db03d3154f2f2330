from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from store import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    stream = io.StringIO()
    logs.configure("worker", "INFO", stream)
    yield stream
    root.handlers, root.level = handlers, level


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_contains_the_job_id_and_extra_fields(stream: io.StringIO) -> None:
    log = logging.getLogger("worker.runner")
    log.debug("not shown")
    with logs.job_context("job_1"):
        log.info("step %d", 3, extra={"loss": 0.5})
    log.warning("after")
    first, second = lines(stream)
    assert first["message"] == "step 3"
    assert (first["job"], first["loss"], first["component"]) == ("job_1", 0.5, "worker")
    assert (first["level"], first["logger"]) == ("INFO", "worker.runner")
    assert str(first["at"]).endswith("+00:00")
    assert "job" not in second


def test_a_message_with_line_breaks_stays_one_line(stream: io.StringIO) -> None:
    logging.getLogger("service").info('name is a\n{"level": "INFO", "message": "forged"}')
    assert len(lines(stream)) == 1


def test_an_exception_is_part_of_the_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("service").exception("request failed")
    (line,) = lines(stream)
    assert "ValueError: broken" in str(line["exception"])
