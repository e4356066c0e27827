"""Defines a group of commands that names the command that was probably meant."""

from __future__ import annotations

import click


class CommandGroup(click.Group):
    """A group whose error for an unknown command names the nearest one, or all if none is near."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name and the command of the arguments, and the other arguments."""
        name = args[0]
        is_option = name.startswith("-")
        if not is_option and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            from cli.printable import escape_unprintable
            from topology.spelling.problem import suggest

            remedy = suggest(name, self.list_commands(ctx))
            ctx.fail(f"no such command `{escape_unprintable(name)}`; {remedy}")
        return super().resolve_command(ctx, args)
