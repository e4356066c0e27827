"""Where traces of sampled events go: `--otlp` and `--otlp-one-in`, of a worker and its stages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cli.topology_file import Refused

if TYPE_CHECKING:
    from agents.process.stage_process import NewTraces

USUAL = 1_000


def otlp_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds both options, as `otlp` and `otlp_one_in`."""
    url = click.option(
        "--otlp",
        envvar="INORDER_OTLP",
        metavar="URL",
        help="Send traces of sampled events to this collector, by OTLP over HTTP, as"
        " http://HOST:4318. Wants inorder-engine[otlp].",
    )
    one_in = click.option(
        "--otlp-one-in",
        envvar="INORDER_OTLP_ONE_IN",
        type=click.IntRange(min=1),
        default=USUAL,
        show_default=True,
        help="With --otlp: one event in so many is traced.",
    )
    return url(one_in(command))


def traces(url: str, one_in: int) -> NewTraces:
    """What sends one event in so many there."""
    from sinks.otlp.tracing import Tracing

    return partial(Tracing, url, one_in)


def checked(url: str | None) -> str | None:
    """Where spans are posted to; `Refused` where that cannot be. Loads nothing of the library."""
    if url is None:
        return None
    from sinks.otlp.export import OtlpRefused, endpoint

    try:
        return endpoint(url)
    except OtlpRefused as error:
        raise Refused(f"--otlp: {error}") from error
