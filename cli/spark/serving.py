"""`/metrics` of a job's queries, where `--http` asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server

from cli.serving import listening
from cli.topology_file import Refused

if TYPE_CHECKING:
    from spark_analytics.watching import Figures


@contextmanager
def served(where: str | None, figures: Callable[[], Mapping[str, Figures]]) -> Iterator[None]:
    """As long as this lasts; nothing without an address."""
    if where is None:
        yield
        return
    from spark_analytics.exposed import Exposed

    host, port = listening("--http", where)
    registry = CollectorRegistry()
    registry.register(Exposed(figures))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise Refused(f"--http {where}: {error.strerror}; name a free port") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
