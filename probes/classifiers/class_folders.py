"""Labelled images of a folder: by class folders, or by a metadata table.

A folder may hold splits (`test`, `validation`, `train`), of which one is taken. Only headers are read here: an
image is decoded when its pixels are read. What would change pixels silently (another size, 16 bits, several
frames) is refused with the file's name.
"""

import os
import posixpath
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.classifiers.class_maps import ClassMap, standard_order
from probes.core.errors import InputError
from probes.core.progress import Progress
from probes.files.foreign_paths import as_written_here
from probes.files.image_folders import ImageFile, ImageFolder, ImageRun, batch_size
from probes.files.images import FORMATS, Header, Resizing
from probes.files.several_refusals import SHOWN, several
from probes.files.tables import read_table

# Held-out images first: what a model says of images that it was trained on proves little.
_SPLITS = ("test", "validation", "valid", "val", "dev", "train")
_METADATA = ("metadata.csv", "metadata.jsonl")
_MODEL = "the model takes"
_OTHER_SPACES = ("CMYK", "YCbCr", "LAB", "HSV")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The images of a folder: paths, labels, and `read`, which decodes one to uint8 (c, h, w).

    `columns` are those of the metadata table, one value per image; `class_names` are empty where labels are ids.
    """

    files: tuple[Path, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    columns: Mapping[str, tuple[str | None, ...]]
    shape: tuple[int, int, int]
    read: Callable[[int], NDArray[np.uint8]]
    layout: str
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Listing:
    """The images, labels and notes found before any image is opened."""

    layout: str
    files: list[ImageFile] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    classes: tuple[str, ...] = ()
    columns: dict[str, list[str | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, file: ImageFile, name: str, label: str) -> None:
        self.files.append(file)
        self.names.append(name)
        self.labels.append(label)


def read_folder(
    root: Path,
    *,
    shape: tuple[int, int, int] | None = None,
    class_names: tuple[str, ...] = (),
    resize: bool | Resizing = False,
    taken: slice = slice(None),
    decoding: Progress | None = None,
    class_map: ClassMap | None = None,
    processor: bool = False,
) -> Folder:
    """List the images of a folder and check the header of each that will be taken.

    Parameters
    ----------
    shape
        (c, h, w) that the model takes; None: RGB in the size of the first image.
    class_names
        The model's own names, in the order of its outputs.
    resize
        Bring images of another size to (h, w) of `shape`, bilinearly, instead of refusing them; or every image as a
        `Resizing` says.
    taken
        The images that will be looked at, by their indices in the list; no other one is opened.
    decoding
        Where headers are refused, decode the other images too, with this progress, so that one refusal names all.
    class_map
        Which output each folder, or label of the table, stands for.
    processor
        Whether the model says how its pictures are resized, to be offered where a size is refused.

    Raises
    ------
    InputError
        Where the layout is not understood, or a file is unreadable, no image, of another size, or elsewhere.
    """
    if shape is not None and shape[0] not in (1, 3):
        raise InputError(
            f"The model takes images of {shape[0]} channels; files of images give 1 or 3.",
            where=str(root),
            hint="Give an NPZ with the arrays x (n, c, h, w) and y.",
        )
    folder = ImageFolder(root, tuple(FORMATS))
    base, notes = _choose_split(folder)
    table = next((base / name for name in _METADATA if (base / name).is_file()), None)
    listing = _by_table(folder, base, table) if table else _by_class(folder, base)
    if not listing.files:
        raise InputError(
            "There are no images in this folder.",
            where=str(base),
            hint=f"Their names end in {', '.join(sorted(folder.suffixes))}.",
        )
    if class_map is not None:
        labels, names, mapping = _mapped(listing, class_names, class_map, str(base))
    else:
        labels, names, mapping = _ids(listing, class_names)
    found, changes = _check_headers(
        folder, listing, shape, resize=resize, taken=taken, decoding=decoding, processor=processor
    )
    order = range(len(listing.files))[taken]
    return Folder(
        files=tuple(file.path for file in listing.files),
        names=tuple(listing.names),
        labels=labels,
        class_names=names,
        columns={name: tuple(values) for name, values in listing.columns.items()},
        shape=found,
        read=ImageRun(folder, tuple(listing.files), found, resize, order).read,
        layout=listing.layout,
        notes=(*notes, *listing.notes, *mapping, *changes),
    )


def _choose_split(folder: ImageFolder) -> tuple[Path, list[str]]:
    """Return the folder to read: the root itself, or the first of its splits."""
    root = folder.root
    folders = [entry.name for entry in folder.entries(root).folders]
    splits = [name for name in _SPLITS if name in folders]
    if not splits or any((root / name).is_file() for name in _METADATA):
        return root, []
    # A class may be called "train"; a split is known by its own class folders or table.
    nested = any(_is_split(folder, root / name) for name in splits)
    if not nested and not set(folders) <= set(_SPLITS):
        return root, []
    folder.find(splits[0], str(root / splits[0]))
    return root / splits[0], [_split_note(splits)]


def _is_split(folder: ImageFolder, path: Path) -> bool:
    return bool(folder.entries(path).folders) or any(os.path.lexists(path / name) for name in _METADATA)


def _split_note(splits: Sequence[str]) -> str:
    others = f" (there are also: {', '.join(splits[1:])})" if splits[1:] else ""
    caution = "; the model may have been trained on these very images" if splits[0] == "train" else ""
    return f"The split {splits[0]!r} was taken{others}{caution}."


def _by_class(folder: ImageFolder, base: Path) -> _Listing:
    """List `base/<class>/<image>`; a class without images keeps its place in the order."""
    listing = _Listing("folders by class")
    top = folder.entries(base)
    classes = [entry.name for entry in top.folders]
    if not classes:
        raise InputError(
            "There are no class folders here.",
            where=str(base),
            hint="Put the images of each class into a folder of its own, or add metadata.csv with the columns "
            "file_name and label.",
        )
    others, deeper = len(top.images) + top.others, 0
    for name in classes:
        folder.find(folder.name(base / name), str(base / name))
        found = folder.entries(base / name)
        others += found.others
        deeper += len(found.folders)
        for entry in found.images:
            relative = folder.name(entry.path)
            listing.add(ImageFile(folder.find(relative, entry.path), entry.path), relative, name)
    listing.classes = tuple(classes)
    empty = sorted(set(classes) - set(listing.labels))
    if others:
        listing.notes.append(f"{_count(others, 'file')} left out: no image by its name, or in no class folder.")
    if deeper:
        listing.notes.append(f"{_count(deeper, 'folder')} left out, inside the folder of a class.")
    if empty:
        listing.notes.append(f"{_count(len(empty), 'class folder')} empty: {_shorten(empty)}.")
    return listing


def _by_table(folder: ImageFolder, base: Path, path: Path) -> _Listing:
    """List the images of a metadata table, whose paths are relative to its own folder."""
    folder.find(folder.name(path), str(path))
    table = read_table(path)
    for column in ("file_name", "label"):
        if column not in table.columns:
            raise InputError(
                f"The table has no column {column!r}.",
                where=str(path),
                hint=f"It needs file_name and label. {table.suggest(column)}",
            )
    table.check_flat(["file_name", "label"])
    listing = _Listing(
        f"files of {path.name}",
        columns={name: [] for name in table.columns if name not in ("file_name", *table.nested)},
    )
    if table.nested:
        listing.notes.append(f"Columns of lists or objects cannot be asked for: {_shorten(list(table.nested))}.")
    given = ((row.values.get("file_name") or "").strip() for row in table.rows)
    names = [posixpath.normpath(as_written_here(name, str(base))) for name in given]
    splits = {name.partition("/")[0] for name in names}
    chosen = [split for split in _SPLITS if split in splits] if splits <= set(_SPLITS) else []
    if chosen:
        listing.notes.append(_split_note(chosen))
    seen: dict[Path, int] = {}
    for name, row in zip(names, table.rows, strict=True):
        if chosen and not name.startswith(f"{chosen[0]}/"):
            continue
        where = f"{path}:{row.line}"
        label = (row.values.get("label") or "").strip()
        if not label or name == ".":
            raise InputError("The row has no file_name or no label.", where=where, hint="Fill it in, or drop the row.")
        relative = posixpath.normpath(posixpath.join(folder.name(base), name))
        file = folder.find(relative, where)
        if seen.setdefault(file, row.line) != row.line:
            raise InputError(
                f"The image {name} is listed before, on line {seen[file]}.",
                where=where,
                hint="Keep one of the two rows.",
            )
        listing.add(ImageFile(file, f"{where} ({name})"), relative, label)
        for column, values in listing.columns.items():
            values.append(row.values.get(column))
    return listing


def _ids(listing: _Listing, class_names: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...], list[str]]:
    """Return the label of each image, the class name of each label, and notes on how they were found."""
    if not listing.classes and _numbers(listing.labels):
        return np.array([int(text) for text in listing.labels], dtype=np.int64), class_names, []
    classes = sorted(listing.classes or set(listing.labels))
    spellings = Counter(_spelling(name) for name in class_names)
    # A name that two classes share (ImageNet has two cranes) tells neither.
    own = {_spelling(name): index for index, name in enumerate(class_names) if spellings[_spelling(name)] == 1}
    matched = [name for name in classes if _spelling(name) in own]
    if len({_spelling(name) for name in matched}) == len(classes):
        order = {name: own[_spelling(name)] for name in classes}
        names, notes = class_names, ["The names of the classes are those of the model."]
    # The alphabet would put 10 before 2.
    elif _numbers(classes) and len(set(map(int, classes))) == len(classes):
        order = {name: int(name) for name in classes}
        names, notes = (), ["The names of the classes are numbers, and were taken for the labels."]
    else:
        order = {name: index for index, name in enumerate(classes)}
        names = tuple(classes)
        matching = f"; only {len(matched)} of {len(classes)} are names of the model" if class_names else ""
        pairs = _shorten([f"{index} {name}" for index, name in enumerate(classes)])
        notes = [f"Labels follow the alphabetical order of the classes{matching}: {pairs}."]
        if standard_order(classes):
            notes.append("The folders are 1000 ids of WordNet, whose order was taken for the usual one of ImageNet.")
    return np.array([order[text] for text in listing.labels], dtype=np.int64), names, notes


def _mapped(
    listing: _Listing, class_names: tuple[str, ...], class_map: ClassMap, where: str
) -> tuple[NDArray[np.int64], tuple[str, ...], list[str]]:
    """Return label and names as `_ids` does, by a file that says which folder is which output."""
    folders = class_map.labels(listing.classes or listing.labels, where)
    names = class_names or class_map.named(folders.values(), folders)
    pairs = _shorten([f"{index} {name}" for name, index in sorted(folders.items(), key=lambda item: item[1])])
    note = f"{len(folders)} of the {len(class_map)} classes of {class_map.path.name} are here: {pairs}."
    return np.array([folders[text] for text in listing.labels], dtype=np.int64), names, [note]


def _numbers(texts: Sequence[str]) -> bool:
    """Tell whether all texts are class numbers."""
    # Nine digits stay below the largest label that is taken, 2**31.
    return all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts)


def _spelling(name: str) -> str:
    # Folders have underscores where models have spaces.
    return " ".join(name.casefold().replace("_", " ").split())


def _shorten(texts: Sequence[str]) -> str:
    return ", ".join(texts[:12]) + (f", ... ({len(texts)})" if len(texts) > 12 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} was" if number == 1 else f"{number} {noun}s were"


def _resizable(shape: tuple[int, int, int], *, processor: bool, model: bool) -> str:
    """Return how pictures can be brought to one size: that of the model, where it is known."""
    ways = ["--resize processor, as the model's processor does"] if processor else []
    if not model:
        ways.append("--resize 256 --crop 224, or the model's own size (shorter side, then the centre)")
    elif shape[1] == shape[2]:
        ways.append(f"--resize {shape[2]} --crop {shape[2]} (shorter side, then the centre)")
    hint = "Bring all images to one size first"
    return f"{hint}, or let them be resized here: {', or '.join(ways)}." if ways else f"{hint}."


def _check_headers(
    folder: ImageFolder,
    listing: _Listing,
    shape: tuple[int, int, int] | None,
    *,
    resize: bool | Resizing,
    taken: slice,
    decoding: Progress | None,
    processor: bool,
) -> tuple[tuple[int, int, int], list[str]]:
    """Return the shape of all images, and notes on how many will be changed and how."""
    counts: Counter[str] = Counter()
    expected = _MODEL
    files, names = listing.files[taken], listing.names[taken]
    bad: dict[int, InputError] = {}
    for index, (file, name, header) in enumerate(zip(files, names, folder.header_answers(files), strict=True)):
        if isinstance(header, InputError):
            bad[index] = header
            continue
        if shape is None:
            if resize is True:
                raise InputError(
                    "The size to which images are to be brought is not known.",
                    where=str(file.path),
                    hint="Write the size into the model's preprocessor_config.json.",
                )
            shape = (3, *resize.output) if isinstance(resize, Resizing) else (3, header.height, header.width)
            expected = f"the first one ({name}) has"
        counts.update(_changes(header, shape[0]))
        if isinstance(resize, Resizing):
            counts["{} resized: " + f"{resize.words}."] += 1
        elif (header.height, header.width) != shape[1:]:
            if not resize:
                message = f"The image has {header.width} x {header.height} pixels (w x h), {expected} "
                message += f"{shape[2]} x {shape[1]}."
                hint = _resizable(shape, processor=processor, model=expected == _MODEL)
                bad[index] = InputError(message, where=file.where, hint=hint)
                continue
            counts["{} brought to " + f"{shape[2]} x {shape[1]} pixels, bilinearly and without keeping the ratio."] += 1
    if bad:
        if decoding is not None and shape is not None:
            rest = {index: file for index, file in enumerate(files) if index not in bad}
            bad |= _undecodable(folder, rest, shape, resize, decoding)
        shown = [(names[index], bad[index]) for index in sorted(bad)[:SHOWN]]
        raise several(shown, len(bad), given=len(files), what="images", where=str(folder.root))
    assert shape is not None
    return shape, [text.format(_count(number, "image")) for text, number in sorted(counts.items())]


def _undecodable(
    folder: ImageFolder,
    files: Mapping[int, ImageFile],
    shape: tuple[int, int, int],
    resize: bool | Resizing,
    progress: Progress,
) -> dict[int, InputError]:
    """Return why images whose headers are in order cannot be decoded, by their places in the list."""
    bad: dict[int, InputError] = {}
    places, step = list(files), batch_size(shape)
    with progress.phase("Decoding images", len(places), "images") as advance:
        for start in range(0, len(places), step):
            some = places[start : start + step]
            answers = folder.answers([files[index] for index in some], shape, resize)
            bad |= {index: one for index, one in zip(some, answers, strict=True) if isinstance(one, InputError)}
            advance(len(some))
    return bad


def _changes(header: Header, channels: int) -> list[str]:
    """Return the conversions by which the pixels as used differ from those of the file."""
    changes = []
    if header.transparent:
        changes.append("{} stored with transparency, which was dropped.")
    if header.mode in _OTHER_SPACES:
        changes.append("{} converted from " + f"{header.mode} to {'RGB' if channels == 3 else 'grey'}.")
    elif header.grey != (channels == 1):
        changes.append("{} " + ("grey: its channel stands three times." if channels == 3 else "converted to grey."))
    if header.rotated:
        changes.append("{} marked as rotated (EXIF), which was ignored.")
    return changes
