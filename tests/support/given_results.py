"""Real objects that are given results which they would compute on demand, for what is made of those results alone."""

from functools import cached_property
from typing import Any


def given(made: Any, **results: Any) -> Any:
    """Give an object the values of some of its cached properties, and return it."""
    for name, value in results.items():
        assert isinstance(vars(type(made))[name], cached_property), f"{name} is not computed on demand"
        vars(made)[name] = value
    return made
