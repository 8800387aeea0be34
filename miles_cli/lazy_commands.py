"""A group that lists commands by their names alone and imports only the one that is called."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, MutableMapping
from typing import Any

from typer.core import TyperCommand

from miles_cli.plain_help import PlainGroup


class LazyCommands(PlainGroup, ABC):
    """A group whose commands are stand-ins with a line of help each, until one of them is called."""

    @abstractmethod
    def rows(self) -> Iterable[tuple[str, str, str]]:
        """Return name, summary and panel of each command; asked once, since installed packages may be searched."""

    @abstractmethod
    def real(self, name: str) -> TyperCommand:
        """Import the command of this name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names in their order."""
        return list(self._stubs())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in that carries the line of the help."""
        return self._stubs().get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that was called."""
        self._stubs()
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if stub is None else self.real(str(stub.name)), rest

    def _stubs(self) -> MutableMapping[str, Any]:
        if not self.commands:
            self.commands = {
                name: TyperCommand(name, callback=_nothing, help=summary, rich_help_panel=panel)
                for name, summary, panel in self.rows()
            }
        return self.commands


def _nothing() -> None:
    """Stand in for a command that is only listed."""
