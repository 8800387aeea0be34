"""Archives that promise more than they hold, for limits that a file of honest size would take minutes to meet."""

import io
import zipfile
from pathlib import Path

import numpy as np


def promise(path: Path, *, fortran: bool = False, descr: str = "|u1", **shapes: tuple[int, ...]) -> Path:
    """Add compressed members to an NPZ that promise values of these shapes, bytes if nothing else, and hold none.

    An archive that has a member of such a name is written anew.
    """
    kept = path.exists() and not {f"{name}.npy" for name in shapes} & set(zipfile.ZipFile(path).namelist())
    with zipfile.ZipFile(path, "a" if kept else "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in shapes.items():
            header = io.BytesIO()
            described = {"descr": descr, "fortran_order": fortran, "shape": shape}
            np.lib.format.write_array_header_1_0(header, described)
            archive.writestr(f"{name}.npy", header.getvalue())
            # The directory, which is written last, says how long a member is.
            archive.getinfo(f"{name}.npy").file_size += int(np.prod(shape)) * np.dtype(descr).itemsize
    return path
