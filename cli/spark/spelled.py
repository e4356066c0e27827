"""What options of `inorder spark` spell: settings of Spark, windows and lengths of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from cli.topology_file import Refused
from topology.config import QueryConfig
from topology.config.problem import Fault
from topology.config.spelling import length_ns


def settings_of(conf: Sequence[str]) -> dict[str, str]:
    """Those of `--conf`."""
    settings = {}
    for pair in conf:
        name, _, value = pair.partition("=")
        if not (name and value):
            raise Refused(f"--conf {pair}: write NAME=VALUE, like spark.driver.memory=2g")
        settings[name] = value
    return settings


def window_of(text: str, option: str) -> Any:
    try:
        query = QueryConfig.model_validate({"window": text, "aggregate": {"n": "count()"}})
    except ValidationError as error:
        raise Refused(f"{option} {text}: {error.errors()[0]['msg']}") from None
    return query.window


def length_of(text: str, option: str) -> int:
    """A length of time with its unit, in ns; Refused names the option."""
    try:
        return length_ns(text)
    except PydanticCustomError as error:
        faults: list[Fault] = (error.context or {})["faults"]
        raise Refused(f"{option}: {faults[0].message}; {faults[0].remedy}") from None
