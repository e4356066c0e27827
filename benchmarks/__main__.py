"""Run one benchmark, or all in turn: `python -m benchmarks [NAME [ARGUMENT…]]`.

A benchmark is a module of this package with a `command` that prints its measurements. `make
bench-NAME` runs it by the module's name. Without options, each benchmark runs in its quick form,
which takes about a minute. `--full` gives the figures of README.md, and `--help` lists all options.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import click

import benchmarks


def find_all() -> dict[str, click.Command]:
    """Return all benchmarks by name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    modules = {
        name: importlib.import_module(f"benchmarks.{name}") for name in names if name[0] != "_"
    }
    commands = {name: getattr(module, "command", None) for name, module in modules.items()}
    return {name: each for name, each in commands.items() if isinstance(each, click.Command)}


def bench(benchmark: click.Command, *options: str) -> None:
    """Run a benchmark with the given options.

    Errors of the benchmark are passed on. Unknown options raise click.UsageError.
    """
    benchmark.main(list(options), prog_name=f"benchmarks {benchmark.name}", standalone_mode=False)


def main(arguments: Sequence[str]) -> int:
    known = find_all()
    if not arguments:
        for name, benchmark in known.items():
            print(f"== {name}", flush=True)
            bench(benchmark)
        return 0
    name = arguments[0].replace("-", "_")
    if name not in known:
        print(f"no benchmark {arguments[0]}; use one of: {', '.join(known)}", file=sys.stderr)
        return 2
    bench(known[name], *arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
