"""Paths of a report as URIs, for forms that name files so.

Source: RFC 3986 (relative references, percent-encoding), RFC 8089 (file URIs, also of Windows).
"""

import ntpath
import posixpath
import re
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import quote

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_LONG = re.compile(r"^\\\\\?\\(UNC\\)?", re.IGNORECASE)
_SAFE = "~!$&'()*+,;=@"
"""Letters that a segment of a path may hold as they are; a colon is not one of them, since it may end a scheme."""


def is_windows(path: str, platform: str = "") -> bool:
    r"""Tell whether a path is one of Windows: by where the run was made, or by its drive or share.

    Examples
    --------
    >>> is_windows("a\\b.csv"), is_windows("a\\b.csv", "Windows 11 AMD64"), is_windows("C:\\a.csv", "Linux")
    (False, True, True)
    """
    return platform.startswith("Windows") or _DRIVE.match(path) is not None or path.startswith("\\\\")


def file_name(path: str, platform: str = "") -> str:
    r"""Return the last part of a path, without its folders, which may be those of a user; empty where it has none.

    Examples
    --------
    >>> file_name("/home/me/a.csv"), file_name("C:\\Users\\me\\a.csv"), file_name("me\\a.csv", "Windows 11 AMD64")
    ('a.csv', 'a.csv', 'a.csv')
    """
    return (PureWindowsPath if is_windows(path, platform) else PurePosixPath)(path).name


def uri(path: str, root: str = "", platform: str = "") -> str:
    r"""Return the URI of a path: relative where it lies below a folder, else that of a file.

    Parameters
    ----------
    path
        As the report has it, absolute or relative to `root`.
    root
        The absolute folder to which relative references are relative, such as the checkout of a repository.
    platform
        The system of the run, as in the provenance of a report.

    Examples
    --------
    >>> uri("/work/data/a b#1.csv", "/work"), uri("/data/a.csv", "/work"), uri("../é.csv", "/work")
    ('data/a%20b%231.csv', 'file:///data/a.csv', 'file:///%C3%A9.csv')
    >>> uri("C:\\runs\\a b.csv"), uri("c:\\Runs\\x.csv", "C:\\runs"), uri("a\\b.csv", platform="Windows 11 AMD64")
    ('file:///C:/runs/a%20b.csv', 'x.csv', 'a/b.csv')
    >>> uri("a\\b.csv"), uri("a:b.csv"), uri("\\\\server\\share\\a.csv")
    ('a%5Cb.csv', 'a%3Ab.csv', 'file://server/share/a.csv')
    """
    windows = is_windows(path, platform)
    system = ntpath if windows else posixpath
    text = _LONG.sub(lambda found: "\\\\" if found[1] else "", path) if windows else path
    if root and is_windows(root, platform) == windows:
        text = system.join(root, text)
        below = _below(system.normpath(text), system.normpath(root), windows)
        if below is not None:
            return _joined(below) or "./"
    text = system.normpath(text or ".")
    if windows:
        text = text.replace("\\", "/")
        if text.startswith("//"):
            return f"file:{_joined(text)}"
        drive = text[:2] if _DRIVE.match(text) else ""
        return f"file:///{drive}{_joined(text[2:])}" if drive else _rooted(text)
    return _rooted(text)


def _rooted(text: str) -> str:
    return f"file:///{_joined(text.lstrip('/'))}" if text.startswith("/") else _joined(text)


def _below(path: str, folder: str, windows: bool) -> str | None:
    """Return what follows a folder in a path, with slashes, or None where the path does not lie below it."""
    if windows:
        # Windows does not tell capitals apart.
        path, folder = path.replace("\\", "/"), folder.replace("\\", "/")
    folder = folder.rstrip("/") + "/"
    head = f"{path}/"[: len(folder)]
    if head == folder or (windows and head.lower() == folder.lower()):
        return path[len(folder) :]
    return None


def _joined(path: str) -> str:
    return "/".join(_quoted(part) for part in path.split("/"))


def _quoted(part: str) -> str:
    """Percent-encode one segment; bytes of a name that is no UTF-8 stay what they are."""
    try:
        return quote(part.encode("utf-8", "surrogateescape"), safe=_SAFE)
    except UnicodeEncodeError:
        return quote(part.encode("utf-8", "replace"), safe=_SAFE)
