"""Commands whose help shows no value beside a flag that takes none."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


def _bare(params: list[Any]) -> list[Any]:
    for item in params:
        if getattr(item, "is_flag", False):
            # Without one, typer shows `<bool>`, as if a value could follow.
            item.metavar = ""
    return params


class PlainCommand(TyperCommand):
    """A command with bare flags in its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, that of the help included."""
        return _bare(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands with bare flags in its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, that of the help included."""
        return _bare(super().get_params(ctx))
