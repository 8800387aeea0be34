"""Tell which packages are installed, without importing them."""

from importlib.util import find_spec


def is_installed(name: str) -> bool:
    """Tell whether a package can be imported, without importing it.

    >>> is_installed("json"), is_installed("no_such_package")
    (True, False)
    """
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):
        return False
