"""What servers for tests and benchmarks have in common: `with` starts and ends them."""

from __future__ import annotations

from typing import Self


class Server:
    """A server that does not come up is taken down before the failure is raised."""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def _take_down(self) -> None:
        """After a start that failed."""
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
