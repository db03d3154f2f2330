"""Methods that are written once as coroutines and work in both clients.

In the asynchronous client they are coroutines. In the blocking client they run at once: its
connection blocks instead of suspending, so the first step of the coroutine is also the last.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


class BlockingCaller:
    """Base of classes whose operations return values."""


class AsyncCaller:
    """Base of classes whose operations return coroutines and asynchronous iterators."""


def run(awaitable: Awaitable[Value]) -> Value:
    """The value of a coroutine that never suspends."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as done:
        value: Value = done.value
        return value
    raise RuntimeError("an operation of the blocking client suspended")


def iterate(items: AsyncIterator[Value]) -> Iterator[Value]:
    """The items of an asynchronous iterator that never suspends."""
    while True:
        try:
            yield run(anext(items))
        except StopAsyncIteration:
            return


class Operation(Generic[Parameters, Value]):
    """Decorates a coroutine method; see the module."""

    def __init__(
        self, function: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Value]]
    ) -> None:
        @functools.wraps(function)
        def blocking(owner: Any, *args: Any, **options: Any) -> Value:
            return run(function(owner, *args, **options))

        self._function = function
        self._blocking = blocking

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, owner: BlockingCaller, kind: type) -> Callable[Parameters, Value]: ...
    @overload
    def __get__(
        self, owner: AsyncCaller, kind: type
    ) -> Callable[Parameters, Coroutine[Any, Any, Value]]: ...
    def __get__(self, owner: object, kind: type) -> Any:
        call = self._blocking if issubclass(kind, BlockingCaller) else self._function
        return call if owner is None else MethodType(call, owner)


class Listing(Generic[Parameters, Value]):
    """Decorates an asynchronous generator method; see the module."""

    def __init__(
        self, function: Callable[Concatenate[Any, Parameters], AsyncIterator[Value]]
    ) -> None:
        @functools.wraps(function)
        def blocking(owner: Any, *args: Any, **options: Any) -> Iterator[Value]:
            return iterate(function(owner, *args, **options))

        self._function = function
        self._blocking = blocking

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(
        self, owner: BlockingCaller, kind: type
    ) -> Callable[Parameters, Iterator[Value]]: ...
    @overload
    def __get__(
        self, owner: AsyncCaller, kind: type
    ) -> Callable[Parameters, AsyncIterator[Value]]: ...
    def __get__(self, owner: object, kind: type) -> Any:
        call = self._blocking if issubclass(kind, BlockingCaller) else self._function
        return call if owner is None else MethodType(call, owner)
