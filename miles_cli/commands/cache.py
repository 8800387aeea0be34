"""`miles cache`: show the size of the cache, or clear it."""

from typing import Annotated

import typer

from audits.core.context import Cache


def command(clear: Annotated[bool, typer.Option("--clear", help="Remove every entry.")] = False) -> None:
    """Show the size of the cache, or clear it."""
    cache = Cache.default()
    if clear:
        typer.echo(f"{cache.folder}: {cache.clear() / 1e6:.1f} MB freed")
        return
    usage = cache.usage()
    typer.echo(f"{cache.folder}: {sum(size for _, size in usage.values()) / 1e6:.1f} MB")
    for kind, (count, size) in usage.items():
        typer.echo(f"  {kind:<24} {count:>7} entries {size / 1e6:>10.1f} MB")
