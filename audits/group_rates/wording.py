"""Groups as people say them: `age=old&gender=female` is "old female" speakers by age and gender."""


def columns_of(by: str) -> str:
    """Return an attribute in words, or several crossed.

    >>> columns_of("age"), columns_of("age&gender")
    ('age', 'age and gender crossed')
    """
    return f"{by.replace('&', ' and ')} crossed" if "&" in by else by


def levels_of(group: str) -> str:
    """Return the levels of a group without their attributes.

    >>> levels_of("age=old&gender=female"), levels_of("all")
    ('old female', 'all')
    """
    return " ".join(part.partition("=")[2] or part for part in group.split("&"))


def attributes_of(group: str) -> str:
    """Return the attributes of a group; empty where it names none.

    >>> attributes_of("age=old&gender=female"), attributes_of("all")
    ('age, gender', '')
    """
    return ", ".join(part.partition("=")[0] for part in group.split("&") if "=" in part)


def spoken(group: str, unit: str = "speakers") -> str:
    """Return a group in words.

    >>> spoken("age=old"), spoken("age=old&gender=female", "profiles")
    ('old speakers (age)', 'old female profiles (age, gender)')
    """
    by = attributes_of(group)
    return f"{levels_of(group)} {unit} ({by})" if by else group


def compared(group: str, than: str, unit: str = "speakers") -> str:
    """Return both sides of a comparison.

    >>> compared("age=old", "age=young"), compared("age=old", "all others together")
    ('on old than on young speakers (age)', 'on old speakers (age) than on all others together')
    """
    if attributes_of(group) == attributes_of(than):
        return f"on {levels_of(group)} than on {spoken(than, unit)}"
    return f"on {spoken(group, unit)} than on {spoken(than, unit)}"
