"""`inorder`: the command line. Each command is a thin module in the room of its subject.

Exit codes: `agents.exits`, one table for all commands.
Settings also come from the environment (`INORDER_TOPOLOGY`, `INORDER_BROKERS`,
`INORDER_STATE_DIR`, `INORDER_HTTP`, `INORDER_STAGE`, `INORDER_REDIS`, `INORDER_POSTGRES`,
`INORDER_KAFKA` and the names of the TLS and SASL settings, and `INORDER_<COMMAND>_<OPTION>` for
the rest); the command line wins.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any, Final

import click

COMMANDS: Final = {
    "audit": ("audit.command", "Say how disordered a topic or file is, and what that costs."),
    "check": ("files.check", "Check a topology file."),
    "demo": (
        "demo.show",
        "Show the main job: an embedded Kafka, disordered producers, a real worker.",
    ),
    "dev": ("run.dev", "Broker, topics and worker in one command, to try things on."),
    "doctor": ("doctor.command", "Look whether the brokers' topics are fit for a topology."),
    "dump": ("kafka.dump", "Print an input topic as lines for `replay`."),
    "explain": ("run.explain", "Say what a worker holds, since when, and what it waits for."),
    "init": ("files.init", "Write a first topology file for recorded events or a topic."),
    "keys": ("kafka.keys", "Make the keys that sources sign with."),
    "match": ("files.match", "Find patterns in recorded events."),
    "produce": ("kafka.produce", "Publish recorded events with the header contract."),
    "query": ("kafka.query", "Add and remove patterns while workers run."),
    "read": ("kafka.read", "Print what a worker wrote to a topic as lines of JSON."),
    "replay": ("files.replay", "Run the topology in this process on recorded events."),
    "resend": ("kafka.resend", "Ask sources to send again what is missing."),
    "sink": ("kafka.sink", "Keep the results of a topic in Redis, PostgreSQL or files."),
    "spark": ("spark.command", "Analyse the topics with Spark."),
    "stage": ("run.stage", "One stage's process (started by `worker`)."),
    "sync-server": ("run.sync_server", "Measure the clocks of sources over UDP."),
    "topics": ("kafka.topics", "Make the topics that a topology needs, or say the rights to them."),
    "worker": ("run.worker", "Run the stages of a topology on Kafka."),
}
"""The module of each command in `cli`, and what it does."""

HIDDEN: Final = frozenset({"stage"})

EXTRAS: Final = {
    "psycopg": "sinks", "redis": "sinks", "pyarrow": "files", "pyspark": "spark",
    "fastavro": "avro", "google": "protobuf",
}  # fmt: skip
"""What the plain installation does without, and how it is asked for."""


class Commands(click.Group):
    """Commands are imported when used: `replay` needs no Kafka client."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if name not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = import_module(f"cli.{module}").command
        if not gc.isenabled():  # so `inorder_engine` began; what was imported need not be walked
            gc.freeze()
            gc.enable()
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Help and the version are printed here."""
        from cli.output import whole_output

        with whole_output():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return self._invoke(ctx)
        except click.ClickException as error:
            import logging

            from cli.logs import has_log
            from cli.printable import printable

            error.message = "\n".join(map(printable, error.message.split("\n")))
            if not has_log(ctx):
                raise
            logging.getLogger("inorder").error("%s", error.format_message())
            raise SystemExit(error.exit_code) from error

    def _invoke(self, ctx: click.Context) -> Any:
        from cli.output import whole_output

        try:
            with whole_output():
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
        """From the table, so that help imports nothing either."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "INORDER"},
)
@click.version_option(package_name="inorder-engine")
def main() -> None:
    """Puts events of many machines back in order, and says how sure it is."""
