"""Read the arrays of an NPZ: the members of a zip that are named .npy."""

import struct
import zipfile
from functools import partial
from pathlib import Path

from probes.core.errors import InputError
from probes.files.npy import Part, Stream, read_header
from probes.files.stored import Refusal
from probes.files.zips import entries

MOST_ARRAYS = 2**12
"""Members that an NPZ may have."""
TORCH = "torch"
"""The form of a zip of torch.save, whose arrays are not read here."""
_FIXED = 30


def read_npz(path: Path, most: int) -> tuple[dict[str, Stream], dict[str, Refusal], str]:
    """Return the arrays of an NPZ by name, those that are refused, and the form in words.

    Parameters
    ----------
    most
        Bytes to which an array may unpack that can only be read as a whole.

    Raises
    ------
    InputError
        Where the zip may not be read, or has too many members.
    """
    infos = entries(path, unicode=True)
    # torch.save writes a zip too.
    if any(info.filename.endswith(("/data.pkl", "/constants.pkl")) for info in infos):
        return {}, {}, TORCH
    if len(infos) > MOST_ARRAYS:
        message = f"The archive has {len(infos)} members; {MOST_ARRAYS} can be read."
        raise InputError(message, where=str(path), hint="Save fewer and larger arrays.")
    arrays: dict[str, Stream] = {}
    refused: dict[str, Refusal] = {}
    # Each array opens the file again when it is read.
    with zipfile.ZipFile(path) as archive:
        for info in infos:
            if info.filename.endswith(".npy"):
                name = info.filename.removesuffix(".npy")
                try:
                    arrays[name] = _member(archive, path, info, most)
                except Refusal as refusal:
                    refused[name] = refusal.without_traceback()
    return arrays, refused, "NPZ"


def _member(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo, most: int) -> Stream:
    with archive.open(info) as file:
        header = read_header(file, info.file_size)
    if header.fortran and header.size > most:
        raise Refusal(f"unpacks to {header.size} bytes", "Save it in C order: numpy.ascontiguousarray(x).")
    start = _content_start(path, info)
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size:
        part = Part(path, start, info.file_size, info.CRC)
        return Stream(part.open, header, part)
    return Stream(partial(_unpacked, path, info, start), header)


def _unpacked(path: Path, info: zipfile.ZipInfo, start: int) -> zipfile.ZipExtFile:
    """Open a compressed member whose content begins at a byte; its check sum is compared at its end."""
    file = path.open("rb")
    file.seek(start)
    return zipfile.ZipExtFile(file, "r", info, None, True)


def _content_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return the offset of a member's content: its local header may be longer than the central directory says."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        # The fixed part ends with the lengths of the name and the extra field.
        name, extra = struct.unpack("<26xHH", file.read(_FIXED))
    return int(info.header_offset + _FIXED + name + extra)
