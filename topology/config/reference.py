"""Describes the topology file: its JSON schema, and a file in which every key is filled in.

Both are generated from the types of the sections (`Topology`), so they agree with the code that
reads the file. The schema's descriptions are the docstrings of the fields. Defaults are written as
in a file.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import warnings
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import yaml
from pydantic.fields import FieldInfo

from topology.base.user_functions import Bring
from topology.config.query import KINDS, kind_of
from topology.config.reading import QUERY, SECTIONS, parse
from topology.spelling.problem import Path, TopologyError
from topology.spelling.section import Section
from topology.spelling.values import BYTES_PER, MILLION, NS_PER, RATES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
PART: Final = re.compile(r'"([^"]*)"|([^."]+)')
"""Matches a part of a problem's path; a name that contains a dot is quoted."""

MAX_ROUNDS: Final = 5
"""The maximum number of rounds in which refused keys are removed.

A key may be refused because of other keys, which are refused because of further ones. Each round
removes some.
"""

UNITS: Final[Mapping[str, Mapping[str, int]]] = {
    "_ppb": RATES,
    "_ns": NS_PER,
    "_bytes": BYTES_PER,
}
"""The units of a setting, by the suffix of its Python name."""

Document = dict[str, Any]


def default_of(name: str, field: FieldInfo) -> Any:
    """Return the default as written in a file, or None if the key has no default."""
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Section):
        return _defaults_of(type(value))
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if name.endswith("_ppm"):
        return float(Decimal(value) / MILLION)
    units = next((units for ending, units in UNITS.items() if name.endswith(ending)), None)
    return value if units is None else _format_in_largest_unit(value, units)


def _format_in_largest_unit(amount: int, unit_sizes: Mapping[str, int]) -> str:
    """Return the amount in the largest unit of which it is a whole number."""
    fitting = [unit for unit, size in unit_sizes.items() if amount % size == 0]
    unit = fitting[-1 if amount else 0]
    return f"{amount // unit_sizes[unit]}{unit}"


def _defaults_of(section: type[Section]) -> Document:
    defaults = (
        (key, default_of(name, field)) for key, (name, field) in section.list_keys().items()
    )
    return {key: default for key, default in defaults if default is not None}


# -- The schema ------------------------------------------------------------------------------------


def schema() -> Document:
    """Return the JSON schema of the file.

    The schema checks the value of each key. `inorder check` also checks whether the values fit
    together.
    """
    (root,) = SECTIONS[()]
    with warnings.catch_warnings():
        # The defaults that cause these warnings are replaced below.
        warnings.simplefilter("ignore", UserWarning)
        made: Document = root.model_json_schema()
    for section in {each for sections in SECTIONS.values() for each in sections}:
        described = made if section is root else made["$defs"][section.__name__]
        _describe(described, section)
    return {"$schema": DIALECT, **made, "title": "inorder topology"}


def descriptions_of(section: type[Section]) -> dict[str, str]:
    """Return the docstring of each field on one line, by the field's name."""
    words: dict[str, str] = {}
    for base in section.__mro__:
        if issubclass(base, Section):
            (made,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(made, ast.ClassDef)
            for each, below in pairwise(made.body):
                match each, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        words[name] = " ".join(text.split())
    return words


def _describe(described: Document, section: type[Section]) -> None:
    words = descriptions_of(section)
    for key, (name, field) in section.list_keys().items():
        entry = described["properties"][key]
        entry["description"] = words.get(name, "")
        entry.pop("default", None)
        default = default_of(name, field)
        is_unwritten = default == [] and entry.get("minItems", 0) > 0
        if default not in (None, "", {}) and not is_unwritten:
            entry["default"] = default


# -- The file with every key -----------------------------------------------------------------------


def fill(document: Mapping[str, Any], bring: Bring | None = None) -> str:
    """Return the document as a file to which every other allowed key is added.

    `TopologyError` is raised if the document itself is refused.
    """
    stages = [stage.name for stage in parse(document, bring).stages]
    whole = _fill(document, ())
    whole = {"streams": whole["streams"], "stages": stages, **whole}
    for _ in range(MAX_ROUNDS):
        try:
            parse(whole, bring)
        except TopologyError as refused:
            for problem in refused.problems:
                _remove_key(whole, document, ["".join(part) for part in PART.findall(problem.path)])
        else:
            break
    parse(whole, bring)
    return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=1_000)


def _fill(given: Any, path: Path) -> Any:
    if path in SECTIONS:
        section = KINDS[kind_of(given)] if path == QUERY else SECTIONS[path][0]
        given = section.unfold(given)
        if given is None:
            return False
        whole: Document = {}
        for key, (name, field) in section.list_keys().items():
            value = given[key] if key in given else default_of(name, field)
            if value not in (None, "") or key in given:
                whole[key] = _fill(value, (*path, key))
        return whole
    if isinstance(given, Mapping) and (*path, "*") in SECTIONS:
        return {name: _fill(each, (*path, "*")) for name, each in given.items()}
    return given


def _remove_key(whole: Document, document: Mapping[str, Any], path: list[str]) -> None:
    """Remove the key at `path`, unless the document itself has this key."""
    *above, key = path
    given: Any = document
    for part in above:
        whole = whole.get(part, {})
        given = (given.get(part) or {}) if isinstance(given, Mapping) else {}
    if key not in given:
        whole.pop(key, None)
