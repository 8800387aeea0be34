"""Find the recording that a row of a manifest names, and whether it may be opened."""

from pathlib import Path

from probes.core.errors import InputError
from probes.files.safe_paths import OutsideError, RootedPaths, is_name_of_file


def locate(name: str, column: str, paths: RootedPaths | None, where: str) -> tuple[Path, InputError | None]:
    """Return the path of a recording, and why it may not be opened.

    Where nothing is opened, `paths` is None, and a path is a name like any other.

    Raises
    ------
    InputError
        Where nothing is opened and there is no name.
    """
    if not name:
        fault = InputError("The row names no recording.", where=where, hint=f"Fill in {column!r}, or drop the row.")
        if paths is None:
            raise fault
        return Path(), fault
    # What is no file is refused when it is opened, so that it is named together with other bad clips.
    if paths is None or not is_name_of_file(name):
        return Path(name), None
    try:
        return paths.resolve(name, where), None
    except OutsideError as error:
        return Path(name), error
