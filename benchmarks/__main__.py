"""`python -m benchmarks [NAME [ARGUMENT…]]`: one benchmark, or all of them in turn.

A benchmark is a module of this package with a `command` that prints what it
measured; `make bench-NAME` runs it by the module's name. Without options each takes its
quick form, a minute or so; `--full` gives the figures of README.md, `--help` the rest.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import click

import benchmarks


def found() -> dict[str, click.Command]:
    """All benchmarks by name, in the order of the alphabet."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    modules = {
        name: importlib.import_module(f"benchmarks.{name}") for name in names if name[0] != "_"
    }
    commands = {name: getattr(module, "command", None) for name, module in modules.items()}
    return {name: each for name, each in commands.items() if isinstance(each, click.Command)}


def bench(benchmark: click.Command, *options: str) -> None:
    """Raises what the benchmark raises, and click.UsageError for options that it has not."""
    benchmark.main(list(options), prog_name=f"benchmarks {benchmark.name}", standalone_mode=False)


def main(arguments: Sequence[str]) -> int:
    known = found()
    if not arguments:
        for name, benchmark in known.items():
            print(f"== {name}", flush=True)
            bench(benchmark)
        return 0
    name = arguments[0].replace("-", "_")
    if name not in known:
        print(f"no benchmark {arguments[0]}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    bench(known[name], *arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
