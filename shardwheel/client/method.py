"""How one description of a call becomes a method of both clients, with its types.

    class Jobs(Calls):
        @method
        def get_job(self, job_id: str) -> Script[Job]: ...

    Client().get_job("…")               # -> Job
    await AsyncClient().get_job("…")    # -> Job

A listing becomes an iterator over the items of all its pages, or an asynchronous one.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, overload

from shardwheel.client.script import Script

if TYPE_CHECKING:
    from shardwheel.client.asynchronous import AsyncClient
    from shardwheel.client.blocking import Client

P = ParamSpec("P")
T = TypeVar("T")
Query = dict[str, str | int]


class Listing(NamedTuple, Generic[T]):
    """A list of the API. `limit`: how many items in all; None: all there are. Some have no pages."""

    path: str
    query: Query
    kind: type[T]
    limit: int | None = None
    paged: bool = True


class method(Generic[P, T]):  # noqa: N801
    """A script as a method: run at once, or awaited."""

    def __init__(self, script: Callable[Concatenate[Any, P], Script[T]]) -> None:
        self.script = script

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _bound(client, self.script, "run")


class listing(Generic[P, T]):  # noqa: N801
    """A listing as a method."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        self.describe = describe

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _bound(client, self.describe, "items")


def _bound(client: Any, description: Callable[..., Any], verb: str) -> Callable[..., Any]:
    """`client.run(script(client, …))`, or `client.items(…)`. On the class: the description, for `help()`."""
    if client is None:
        return description

    @functools.wraps(description)
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(client, verb)(description(client, *args, **kwargs))

    return call
