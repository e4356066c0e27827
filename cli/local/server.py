"""Defines the base of servers for tests and benchmarks, which `with` starts and ends."""

from __future__ import annotations

from typing import Self


class Server:
    """A server that a `with` block starts and stops.

    If the start fails, the server is stopped before the failure is raised.
    """

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def _take_down(self) -> None:
        """Stop the server after its start has failed."""
        self.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
