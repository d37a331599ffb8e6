"""Barriers where JAX processes exchange messages, with a time-out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import jax

# No public barrier has a time-out: those of `multihost_utils` are collectives of devices, which
# cannot be called off, and tell no process why another one failed.
from jax._src import distributed as _processes

T = TypeVar("T")
_CALLS = count()


@dataclass(frozen=True)
class Barriers:
    """The barriers of one call, the same on all processes; a single process does not wait.

    Attributes:
        name: the same on all processes, and different for each call.
        timeout: seconds to wait for the slowest process, each time.
    """

    name: str
    timeout: float | int

    @staticmethod
    def of_call(timeout: float | int) -> Barriers:
        """The barriers of the next call of this process."""
        return Barriers(f"genclf-{next(_CALLS)}", timeout)

    def exchange(self, topic: str, own: bytes) -> list[bytes]:
        """The message of each process, in the order of their ranks, once all have sent one.

        Raise if a process failed, ended or is late.
        """
        client = _client()
        if client is None:
            return [own]
        with self._errors():
            client.key_value_set_bytes(f"{self.name}/{topic}/{jax.process_index():08d}", own)
            self._raise_failures()
            client.wait_at_barrier(self._at(topic), int(1000 * self.timeout))
            return [each for _, each in sorted(client.key_value_dir_get_bytes(self._at(topic)))]

    @contextmanager
    def before(self, topic: str) -> Iterator[None]:
        """A context for work before a barrier: if the work fails, no other process waits for it."""
        try:
            yield
        except Exception as error:
            if (client := _client()) is not None:
                rank = jax.process_index()
                with suppress(jax.errors.JaxRuntimeError):
                    message = f"{type(error).__name__}: {error}"[:500]
                    client.key_value_set(f"{self._at('failed')}{rank:08d}", message)
                    # The barrier fails for all waiting processes if one process names another set
                    # of participants.
                    client.wait_at_barrier(self._at(topic), 1000, [rank])
            raise

    def end(self) -> None:
        """Delete the messages, after the last barrier of all processes."""
        if (client := _client()) is not None and jax.process_index() == 0:
            client.key_value_delete(f"{self.name}/")

    def collective(self, function: Callable[[], T]) -> T:
        """The result of a function that waits for a collective, which has no time-out itself.

        The function runs in a new thread, without the thread-local settings of the caller.
        """
        if _client() is None:
            return function()
        found: Future[T] = Future()

        def run() -> None:
            try:
                found.set_result(function())
            except Exception as error:
                found.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        with self._errors():
            try:
                return found.result(self.timeout)
            except TimeoutError as error:
                raise TimeoutError(f"{self._late}: the collective did not end") from error

    def _at(self, topic: str) -> str:
        return f"{self.name}/{topic}/"

    @property
    def _late(self) -> str:
        return f"a process did not reach the barrier within {self.timeout} s (timeout=)"

    def _raise_failures(self) -> None:
        if failed := sorted(_client().key_value_dir_get(self._at("failed"))):
            each = [f"process {int(key[-8:])} failed: {message}" for key, message in failed[:3]]
            raise RuntimeError("; ".join(each))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of the coordination service as Python's own."""
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            message = " ".join(str(error).split())[:500]
            if "DEADLINE_EXCEEDED" in message or "Conflicting tasks" in message:
                self._raise_failures()
                raise TimeoutError(f"{self._late}: {message}") from error
            raise ConnectionError(f"a process ended: {message}") from error


def agreed(messages: list[dict[str, str | None]]) -> dict[str, str | None]:
    """The common value of each key, except for None; raise if two processes have different ones."""
    whole: dict[str, str | None] = {}
    for what in messages[0]:
        ranks_of: dict[str, list[int]] = {}
        for rank, message in enumerate(messages):
            if (own := message[what]) is not None:
                ranks_of.setdefault(own, []).append(rank)
        if len(ranks_of) > 1:
            each = [f"{own} on processes {ranks!s:.60}" for own, ranks in ranks_of.items()]
            raise ValueError(f"the processes sum different statistics: {what} is {'; '.join(each)}")
        whole[what] = next(iter(ranks_of), None)
    return whole


def _client() -> Any:
    """The client of JAX's coordination service; None if there is a single process."""
    return _processes.global_state.client
