"""`miles canaries`: random texts, fair coins that put each into the training data or not, and the sealed list."""

import os
from pathlib import Path
from random import Random, SystemRandom
from typing import Annotated

import typer

from audits.core.errors import InputError
from audits.membership import canary_making as making
from miles_cli.printable import line
from miles_cli.writing import check_path, write


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the files; it holds none of them yet.")],
    count: Annotated[
        int,
        typer.Option(
            "--count",
            metavar="N",
            help=f"Canaries; about half are included. ({making.LEAST_COUNT:,} to {making.MOST_COUNT:,})",
        ),
    ] = 1000,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="|".join(making.KINDS),
            help="What they are made of. Default: words, or tokens with --tokenizer.",
        ),
    ] = None,
    length: Annotated[
        int,
        typer.Option("--length", metavar="N", help=f"Words, digits or tokens of each. (1 to {making.MOST_LENGTH:,})"),
    ] = 16,
    template: Annotated[
        str, typer.Option("--template", metavar="TEXT", help="A line around the random part.")
    ] = making.SLOT,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="DIR", help="Draw from the tokens of this model's tokenizer."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help="For a list that can be made again. Whoever knows it knows every coin. Default: chance.",
        ),
    ] = None,
) -> None:
    """Make random canaries, flip a fair coin for each, and write what to include and the sealed list of all.

    Put every line of include.txt (or include.jsonl) into the training data once, and publish the SHA-256 of
    canaries.csv before training. Keep that list from whoever trains. Then: miles membership --model FOLDER
    --canaries DIR/canaries.csv --coin-flip 0.5.
    """
    kind = _kind(kind, tokenizer)
    _check_numbers(count, length, seed)
    _check_out(out)
    canaries = making.make_canaries(
        count, kind=kind, length=length, template=template, tokens=_tokens(tokenizer), rng=_chance(seed)
    )
    files = making.files_of(canaries)
    out.mkdir(exist_ok=True)
    _write(out, files)
    _tell(out, canaries, files, seed)


def _write(out: Path, files: dict[str, str]) -> None:
    """Write the files, all or none; the list is its owner's alone to read.

    Raises
    ------
    InputError
        Where another call has begun a list meanwhile: what one writes must not be mixed with the coins of another.
    """
    try:
        os.close(os.open(out / making.LIST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise _there(out / making.LIST) from None
    try:
        for name, text in files.items():
            write(out / name, text)
    except BaseException:
        for name in files:
            (out / name).unlink(missing_ok=True)
        raise


def _there(path: Path) -> InputError:
    # Coins that are flipped again are no longer those that were published.
    hint = "Give another folder: no list is replaced."
    return InputError(f"{line(path)} is there already.", where="--out", hint=hint)


def _kind(kind: str | None, tokenizer: Path | None) -> str:
    found = kind or ("words" if tokenizer is None else "tokens")
    if found not in making.KINDS:
        raise InputError(
            f"{found!r} is not a choice of --kind.", where="--kind", hint=f"Choose from {', '.join(making.KINDS)}."
        )
    if (found == "tokens") != (tokenizer is not None):
        raise InputError(
            "Random tokens are those of a tokenizer.",
            where="--kind, --tokenizer",
            hint="Give --tokenizer DIR with --kind tokens, or neither.",
        )
    return found


def _check_numbers(count: int, length: int, seed: int | None) -> None:
    for flag, number, least, most in (
        ("--count", count, making.LEAST_COUNT, making.MOST_COUNT),
        ("--length", length, 1, making.MOST_LENGTH),
        ("--seed", seed or 0, 0, 2**63 - 1),
    ):
        if not least <= number <= most:
            size = "small" if number < least else "large"
            raise InputError(f"{number} is too {size}.", where=flag, hint=f"Give {least:,} to {most:,}.")
    if count * length > making.MOST_PARTS:
        message = f"{count:,} canaries of {length:,} parts are more than {making.MOST_PARTS:,} parts."
        raise InputError(message, where="--count, --length", hint="Give fewer or shorter ones.")


def _tokens(tokenizer: Path | None) -> making.Tokens | None:
    if tokenizer is None:
        return None
    # With transformers behind it, which words and digits do not need.
    from audits.membership.canary_tokens import tokens_of

    return tokens_of(tokenizer)


def _chance(seed: int | None) -> Random:
    # The audit is void if a coin can be guessed, so chance is the operating system's unless a list must be made again.
    return SystemRandom() if seed is None else Random(f"miles canaries {seed}")


def _check_out(out: Path) -> None:
    if not os.path.lexists(out):
        check_path(out, "--out", [])
        return
    if not out.is_dir():
        raise InputError(f"{line(out)} is no folder.", where="--out", hint="Give the name of a folder for the files.")
    for name in making.FILES:
        # A link to nothing is something, too: the list would stand where it leads.
        if os.path.lexists(out / name):
            raise _there(out / name)
        check_path(out / name, "--out", [])


def _tell(out: Path, canaries: list[making.Canary], files: dict[str, str], seed: int | None) -> None:
    included = sum(one.included for one in canaries)
    chance = "the operating system" if seed is None else f"seed {seed}: whoever knows it knows every coin"
    typer.echo(f"Canaries {len(canaries):,}, of which {included:,} are included; chance is that of {chance}")
    typer.echo(f"Include  {line(out / making.TEXTS)} or {line(out / making.ROWS)}: each line once")
    typer.echo(f"Sealed   {line(out / making.LIST)}: keep it from whoever trains the model")
    typer.echo(f"SHA-256  {making.digest(files[making.LIST])}")
    typer.echo("Publish the SHA-256 before training, train, then:")
    typer.echo(f"  miles membership --model FOLDER --canaries {line(out / making.LIST)} --coin-flip 0.5 --epsilon E")
