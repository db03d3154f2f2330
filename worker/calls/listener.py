"""Threads that answer calls; each has its own cache, so none waits for another or for a job."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

import torch
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import DomainError
from d4explain.contracts.worker_calls import CallFault, CallKind, NearestCall, WhatIfCall
from d4explain.gnn.errors import RefusedError
from store.queue.worker_calls import CallReceiver
from store.store import Store
from worker.calls.explained_graphs import Answers, CallError
from worker.calls.inputs import read_inputs
from worker.calls.nearest import nearest
from worker.calls.what_if import what_if
from worker.loading.library import Library

log = logging.getLogger(__name__)

_RECEIVE_SECONDS = 1.0


class CallAnswerer:
    """Answers calls of all kinds; belongs to one thread."""

    def __init__(self, store: Store, device: torch.device, cache_bytes: int) -> None:
        settings = store.settings
        self._store = store
        self._library = Library(
            store.artifacts,
            device,
            cache_bytes=cache_bytes,
            neighbourhood_nodes=settings.max_neighbourhood_nodes,
            exact_nodes=settings.exact_nodes,
        )
        self._answers = Answers(store.artifacts, cache_bytes // 4)

    def answer(self, kind: CallKind, body: str) -> BaseModel:
        """The answer, or a fault that says what is wrong with the call."""
        try:
            if kind is CallKind.WHAT_IF:
                asked = WhatIfCall.model_validate_json(body)
                inputs = read_inputs(self._store, asked.tenant, asked.gnn, asked.dataset)
                settings = self._store.settings
                return what_if(asked, inputs, self._library, self._answers, settings)
            call = NearestCall.model_validate_json(body)
            inputs = read_inputs(self._store, call.tenant, call.gnn, call.dataset)
            return nearest(call, inputs, self._library, self._answers)
        except CallError as error:
            return error.fault
        except (DomainError, RefusedError) as error:  # such as a GNN whose output is not finite
            return CallFault(at="", detail=str(error))


def start(
    store: Store,
    redis_url: str,
    device: torch.device,
    *,
    threads: int,
    cache_bytes: int,
    stopping: Callable[[], bool],
) -> None:
    """Starts one thread per kind of call; they end when the process does, or when it stops."""
    for kind in CallKind:
        loop = partial(
            _answer_calls, CallReceiver(redis_url, [kind]), store, device, cache_bytes, stopping
        )
        threading.Thread(
            target=partial(_with_threads, threads, loop), name=f"calls-{kind}", daemon=True
        ).start()


def _with_threads(count: int, run: Callable[[], None]) -> None:
    torch.set_num_threads(count)  # OpenMP keeps this number for each thread
    run()


def _answer_calls(
    receiver: CallReceiver,
    store: Store,
    device: torch.device,
    cache_bytes: int,
    stopping: Callable[[], bool],
) -> None:
    answerer = CallAnswerer(store, device, cache_bytes)
    while not stopping():
        call = receiver.receive(_RECEIVE_SECONDS)
        if call is None:
            continue
        try:
            answer = answerer.answer(call.kind, call.body)
        except SQLAlchemyError:
            log.warning("Could not answer a call; its client will ask again", exc_info=True)
            continue
        except Exception:
            log.exception("A call failed")
            answer = CallFault(at="", detail="the worker failed; see its log")
        receiver.answer(call, answer.model_dump_json())
