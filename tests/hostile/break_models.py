"""Open thousands of broken files of models and fields, one after another in this process, and tell how each ended.

Run as a program: `break_models.py GROUP FOLDER [EVERY]` writes a line of JSON for every case, or for every one of so
many; the gate takes a third. A case that takes longer than `LONGEST` seconds ends the process with a traceback.
"""

import faulthandler
import json
import os
import random
import shutil
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mutations
import opened_models as opening
import small_models as small
import torch

from probes.contained import call
from probes.core.errors import MilesError
from probes.files import pickles

LONGEST = 60
_MORE = 200 * 2**20
_ACTS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.connect",
    "socket.getaddrinfo",
)
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod")


class Watch:
    """What the process does that a reader has no business doing: start programs, connect, write elsewhere."""

    def __init__(self, inside: Path) -> None:
        self.inside, self.on, self.seen = str(inside), False, list[str]()
        # The server of contained children is a program that we start.
        call(len, "")
        sys.addaudithook(self.note)

    def note(self, event: str, values: tuple[Any, ...]) -> None:
        """Note one event of the interpreter."""
        if not self.on:
            return
        changed = event in _CHANGES
        if event == "open":
            mode, flags = values[1], values[2]
            changed = (isinstance(mode, str) and any(letter in mode for letter in "wax+")) or bool(flags & os.O_CREAT)
        if event in _ACTS or (changed and not _place(event, values).startswith((self.inside, "/dev/null"))):
            self.seen.append(f"{event} {str(values[:1])[:200]}")


def _place(event: str, values: tuple[Any, ...]) -> str:
    if event in ("os.remove", "os.rmdir") and values[1] >= 0:
        return f"{Path(f'/proc/self/fd/{values[1]}').readlink()}/{values[0]}"
    return str(values[0])


@dataclass(frozen=True)
class Family:
    """Files that belong together, how they are opened, and in what ways they are broken.

    Parameters
    ----------
    make
        Writes them into a folder; returns what is opened.
    broken
        Changes them in place by a random stream; says how.
    count
        Cases.
    """

    make: Callable[[Path], Path]
    load: Callable[[Path], object]
    broken: Callable[[Path, random.Random], str]
    count: int


def _peak() -> int:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1])


def run(name: str, family: Family, folder: Path, watch: Watch, every: int) -> Iterator[dict[str, Any]]:
    """Yield how each case of a family ended, or every one of so many."""
    base, case = folder / "base" / name, folder / "case"
    base.mkdir(parents=True)
    target = family.make(base).relative_to(base)
    family.load(base / target)
    # From the middle of the first few, so that a family of one case has it.
    for seed in range(min(every // 2, family.count - 1), family.count, every):
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(base, case)
        what = family.broken(case / target, random.Random(f"{name} {seed}"))
        size = sum(file.stat().st_size for file in case.rglob("*") if file.is_file() and not file.is_symlink())
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        before, said = _peak(), ""
        print(json.dumps({"family": name, "seed": seed, "what": what}), file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        watch.on = True
        try:
            family.load(case / target)
            outcome = "loaded"
        except MilesError as error:
            outcome = "refused"
            said = "" if error.message and error.hint is not None else "an empty error"
        except BaseException as error:
            outcome, said = "raised", "".join(traceback.format_exception(error)[-5:])[-900:]
        watch.on = False
        faulthandler.cancel_dump_traceback_later()
        grown = _peak() - before
        if grown > 2 * size + _MORE:
            said += f" took {grown >> 20} MiB for {size} bytes"
        if watch.seen or list(folder.glob("marker*")):
            said += f" acted: {watch.seen[:3]} {list(folder.glob('marker*'))}"
            watch.seen.clear()
        yield {"family": name, "seed": seed, "what": what, "outcome": outcome, "wrong": said}


def _bytes(path: Path, rng: random.Random) -> str:
    what, data = mutations.broken_bytes(path.read_bytes(), rng)
    path.write_bytes(data)
    return what


def _torch_file(tensors: Callable[[], dict[str, Any]], *, zipped: bool) -> Callable[[Path, random.Random], str]:
    """Break a file of torch.save: its bytes, its zip, its tensors, or what its pickle asks for."""

    def broken(path: Path, rng: random.Random) -> str:
        place = rng.random()
        if place < 0.4:
            return _bytes(path, rng)
        if place < 0.6 and zipped:
            what, data = mutations.broken_zip(path.read_bytes(), rng)
            path.write_bytes(data)
            return what
        if place < 0.85:
            what, content = mutations.broken_tensors(tensors(), rng)
            small.write(path, content, zipped=zipped)
            return what
        acts = mutations.acting(str(path.parents[1] / "marker"))
        what = rng.choice(sorted([*acts, "plain"]))
        if what == "plain":
            path.write_bytes(mutations.as_pickle(mutations.Act(str(path.parents[1] / "marker"))))
        else:
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(100_000)
            small.write(path, acts[what], zipped=zipped)
            sys.setrecursionlimit(limit)
        return what

    return broken


def _hurried(path: Path) -> object:
    """Open a classifier in a second, for nothing but its time ends the key that takes for ever."""
    with patch.object(pickles, "_SECONDS", 1):
        return opening.classifier(path)


def _endless(path: Path, rng: random.Random) -> str:
    """Leave a key that takes for ever: a reader gives it up after all the time that it allows, so once is enough."""
    path.write_bytes(mutations.with_pickle(path.read_bytes(), mutations.key_of_tuples()))
    return "key"


def _safetensors(tensors: Callable[[], dict[str, Any]]) -> Callable[[Path, random.Random], str]:
    """Break a file of safetensors: its bytes, its header, or its tensors."""

    def broken(path: Path, rng: random.Random) -> str:
        if rng.random() < 0.45:
            return _bytes(path, rng)
        if rng.random() < 0.5:
            data = path.read_bytes()
            length = int.from_bytes(data[:8], "little")
            what, text = mutations.broken_json(data[8 : 8 + length].decode(), rng)
            path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + data[8 + length :])
            return what
        what, content = mutations.broken_tensors(tensors(), rng)
        kept = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
        plain = {name: value for name, value in kept.items() if value.layout == torch.strided and not value.is_meta}
        small.write(path, plain)
        return what

    return broken


def _archive(path: Path, rng: random.Random) -> str:
    """Break an archive of PhysicsNeMo: its bytes, or one of its three files."""
    if rng.random() < 0.5 or path.read_bytes()[:2] != b"PK":
        return _bytes(path, rng)
    if rng.random() < 0.4:
        what, data = mutations.broken_zip(path.read_bytes(), rng)
        path.write_bytes(data)
        return what
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    name = rng.choice(sorted(parts))
    if name == "model.pt":
        what, parts[name] = (mutations.broken_zip if rng.random() < 0.5 else mutations.broken_bytes)(parts[name], rng)
    else:
        what, text = mutations.broken_json(parts[name].decode(), rng)
        parts[name] = text.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for part, data in parts.items():
            archive.writestr(zipfile.ZipInfo(part), data)
    return f"{name}: {what}"


def _folder(path: Path, rng: random.Random) -> str:
    """Break a file of a folder: JSON, weights, or the file as such (a link, a folder, gone, no bytes)."""
    file = rng.choice(sorted(one for one in path.rglob("*") if one.is_file()))
    said, place = file.relative_to(path).as_posix(), rng.random()
    if place < 0.12:
        file.unlink()
        match rng.randrange(5):
            case 0:
                file.symlink_to("/etc/hostname")
            case 1:
                file.symlink_to(file.name)
            case 2:
                file.mkdir()
            case 3:
                os.mkfifo(file)
            case _:
                file.symlink_to("/dev/zero")
        return f"{said} became another kind of file"
    if file.suffix == ".json" and place < 0.8:
        what, text = mutations.broken_json(file.read_text(encoding="utf-8"), rng)
        file.write_text(text, encoding="utf-8")
        return f"{said}: {what}"
    if file.name == "model.safetensors" and place < 0.3:
        torch.save({"a": mutations.Act(str(path.parents[1] / "marker"))}, path / "pytorch_model.bin")
        file.unlink()
        return "weights that act"
    return f"{said}: {_bytes(file, rng)}"


def _pair(
    tensors: Callable[[], dict[str, Any]], name: str, load: Callable[[Path], object], count: int
) -> dict[str, Family]:
    """Return a family for each of the two forms of torch.save."""
    return {
        f"{name}, {form}": Family(
            small.saved(tensors, f"{name}.pt", zipped=zipped), load, _torch_file(tensors, zipped=zipped), count
        )
        for form, zipped in (("zip", True), ("legacy", False))
    }


def _plain(tensors: Callable[[], dict[str, Any]], name: str, load: Callable[[Path], object], count: int) -> Family:
    return Family(small.saved(tensors, f"{name}.safetensors"), load, _safetensors(tensors), count)


GROUPS: dict[str, Callable[[], dict[str, Family]]] = {
    "files": lambda: {
        **_pair(small.cnn, "classifier", opening.classifier, 200),
        "endless, zip": Family(small.saved(small.cnn, "classifier.pt"), _hurried, _endless, 1),
        **_pair(small.operator, "operator", opening.read_operator, 150),
        **_pair(small.neuralop, "neuralop", opening.read_operator, 75),
        **_pair(small.denoiser, "denoiser", opening.read_denoiser, 75),
        **_pair(lambda: small.gan(0), "generator", opening.read_generator, 60),
        "classifier, safetensors": _plain(small.cnn, "classifier", opening.classifier, 150),
        "operator, safetensors": _plain(small.operator, "operator", opening.read_operator, 60),
        "denoiser, safetensors": _plain(small.denoiser, "denoiser", opening.read_denoiser, 60),
        "generator, safetensors": _plain(lambda: small.gan(0), "generator", opening.read_generator, 60),
        "discriminator, safetensors": _plain(lambda: small.gan(1), "discriminator", opening.read_discriminator, 60),
        "mdlus, zip": Family(partial(small.mdlus, tar=False), opening.read_operator, _archive, 150),
        "mdlus, tar": Family(partial(small.mdlus, tar=True), opening.read_operator, _archive, 75),
        **{
            f"fields, {form}": Family(lambda folder, form=form: small.fields(folder, form), load, _bytes, count)
            for form, load, count in (
                ("npz", opening.read_fields, 80), ("npz-packed", opening.read_fields, 80),
                ("h5", opening.read_fields, 100),
                ("h5-chunked", opening.read_fields_of_names, 100), ("mat", opening.read_fields, 80),
                ("mat-packed", opening.read_fields_of_names, 80), ("pt", opening.read_fields, 60),
            )
        },
    },
    "folders": lambda: {
        "speech encoder": Family(small.hub("speech"), opening.speech, _folder, 90),
        "image classifier": Family(small.hub("images"), opening.classifier, _folder, 90),
        "masked model": Family(small.hub("masked"), opening.masked, _folder, 90),
        "text encoder": Family(small.hub("causal"), opening.text_encoder, _folder, 90),
        "language model": Family(small.hub("causal"), opening.causal, _folder, 90),
        "diffusers": Family(small.pipeline, opening.read_denoiser, _folder, 90),
    },
}  # fmt: skip


def main(group: str, folder: Path, every: int = 1) -> None:
    """Run all families of a group in a folder."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    scratch = folder / "scratch"
    scratch.mkdir()
    os.environ["TMPDIR"] = str(scratch)
    watch = Watch(folder)
    for name, family in GROUPS[group]().items():
        for line in run(name, family, folder, watch, every):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
