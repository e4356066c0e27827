"""Defines `inorder`, the command line; each command is a thin module in the folder of its subject.

`agents.exits` has the exit codes of all commands. Settings also come from the environment, and the
command line takes precedence. The variables are `INORDER_TOPOLOGY`, `INORDER_BROKERS`,
`INORDER_STATE_DIR`, `INORDER_HTTP`, `INORDER_STAGE`, `INORDER_REDIS`, `INORDER_POSTGRES`,
`INORDER_KAFKA`, the names of the TLS and SASL settings, and `INORDER_<COMMAND>_<OPTION>` for all
others.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any, Final

import click

from cli.command_group import CommandGroup

GROUPS: Final = {
    "Try, on this machine": {
        "demo": ("demo.show", "Watch disordered producers put in order: Kafka, worker and all."),
        "sample": ("files.sample", "Write small recordings and topology files, for a first try."),
        "audit": ("audit.command", "Report how disordered a topic or file is, and its cost."),
        "init": ("files.init", "Write a first topology file for recorded events or a topic."),
        "check": ("files.check", "Check a topology file."),
        "replay": ("files.replay", "Run a topology in this process on recorded events."),
        "match": ("files.match", "Find patterns in recorded events."),
        "dev": ("run.dev", "Run broker, topics and worker in one command."),
    },
    "Data, in and out of Kafka": {
        "produce": ("kafka.produce", "Publish recorded events."),
        "dump": ("kafka.dump", "Print an input topic as lines for `replay`."),
        "read": ("kafka.read", "Print what a worker wrote to a topic."),
        "sink": ("kafka.sink", "Keep the results of a topic in Redis, PostgreSQL or files."),
        "resend": ("kafka.resend", "Ask sources to send again what is missing."),
    },
    "Run": {
        "topics": ("kafka.topics", "Create the topics of a topology, or print the rights to them."),
        "worker": ("run.worker", "Run the stages of a topology on Kafka."),
        "stage": ("run.stage", "One stage's process (started by `worker`)."),
        "sync-server": ("run.sync_server", "Measure the clocks of sources over UDP."),
        "keys": ("kafka.keys", "Print the keys that sources sign with."),
    },
    "Look": {
        "doctor": ("doctor.command", "Check that the brokers' topics are fit for a topology."),
        "explain": ("run.explain", "Print what a worker buffers, since when, and why."),
    },
    "Spark": {
        "spark": ("spark.command", "Analyse topics and archives: run, live, backfill, views."),
    },
}
"""The module in `cli` and the description of each command, by heading of the help."""

COMMANDS: Final = {name: each for group in GROUPS.values() for name, each in group.items()}

HIDDEN: Final = frozenset({"stage"})

EXTRAS: Final = {
    "aiohttp": "kafka", "aiokafka": "kafka", "confluent_kafka": "kafka", "cramjam": "kafka",
    "faust": "kafka", "mode": "kafka", "prometheus_client": "kafka", "rocksdict": "kafka",
    "psycopg": "sinks", "redis": "sinks", "pyarrow": "files", "pyspark": "spark",
    "fastavro": "avro", "google": "protobuf",
}  # fmt: skip
"""The extra that installs a package, for each package that a plain installation lacks."""


class Commands(CommandGroup):
    """The group of all commands; each is imported when used, so `replay` needs no Kafka client."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if name not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = import_module(f"cli.{module}").command
        # `inorder.__main__` has disabled garbage collection. Imported objects need no collection,
        # so they are frozen.
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line, which may print the help or the version."""
        from cli.output import ensure_whole_output

        with ensure_whole_output():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return self._invoke(ctx)
        except click.ClickException as error:
            import logging

            from cli.logs import has_log
            from cli.printable import escape_unprintable

            error.message = "\n".join(map(escape_unprintable, error.message.split("\n")))
            if not has_log(ctx):
                raise
            logging.getLogger("inorder").error("%s", error.format_message())
            raise SystemExit(error.exit_code) from error

    def _invoke(self, ctx: click.Context) -> Any:
        from cli.output import ensure_whole_output

        try:
            with ensure_whole_output():
                return super().invoke(ctx)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            from cli.topology_file import Refused

            raise Refused(
                f"{error.name} is not installed; pip install 'inorder-engine[{extra}]'"
            ) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print all commands of `GROUPS` in one column width, without importing any of them."""
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            shown = [(f"{n:{width}}", says) for n, (_, says) in commands.items() if n not in HIDDEN]
            with formatter.section(heading):
                formatter.write_dl(shown)


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "INORDER",
        "show_default": True,
    },
)
@click.version_option(package_name="inorder-engine")
def main() -> None:
    """Put events of many machines back in order, and report how certain each result is."""
