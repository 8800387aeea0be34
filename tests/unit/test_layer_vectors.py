"""Files of vectors of layers: what is read from each form, and what no file may do."""

import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.progress import Silent
from probes.speech.embeddings import Embeddings, Item
from probes.speech.layer_vectors import are_vectors, open_vectors
from probes.speech.stored_states import StoredStates, stored_item

HOP = {"hop": "320"}
VALUES = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_vectors(str(path))
    assert caught.value.where and caught.value.hint
    return caught.value.message


def test_every_form_gives_the_same_vectors_and_the_same_hash(tmp_path: Path) -> None:
    half = VALUES.astype(np.float16)
    for form in ("a.safetensors", "stored.npz", "packed.npz", "big.npz"):
        path = tmp_path / form
        if form == "a.safetensors":
            save_file({"x.wav": half}, path, metadata=HOP)
        elif form == "packed.npz":
            np.savez_compressed(path, **{"x.wav": half, "hop": np.float64(320)})
        else:
            np.savez(path, **{"x.wav": half.astype(">f2" if form == "big.npz" else "<f4"), "hop": np.array(320)})
        found = open_vectors(str(path))
        assert (found.layers, found.width, found.hop, found.frames("x.wav")) == (3, 4, 320.0, 5)
        assert found.read("x.wav").dtype == np.float32 and np.array_equal(found.read("x.wav"), half.astype(np.float32))
        assert found.digest("x.wav") == open_vectors(str(tmp_path / "a.safetensors")).digest("x.wav")
    save_tensors({"x.wav": torch.from_numpy(VALUES).bfloat16()}, tmp_path / "b.safetensors", metadata=HOP)
    brain = open_vectors(str(tmp_path / "b.safetensors"))
    assert np.array_equal(brain.read("x.wav"), torch.from_numpy(VALUES).bfloat16().float().numpy())


def test_values_of_a_tensor_are_read_at_its_place_and_no_others(tmp_path: Path) -> None:
    held = {f"{at}.wav": VALUES + at for at in range(16)}
    save_file(held, tmp_path / "a.safetensors", metadata=HOP)
    found = open_vectors(str(tmp_path / "a.safetensors"))
    assert all(np.array_equal(found.read(key), value) for key, value in held.items())


@pytest.mark.parametrize("form", ["safetensors", "npz"])
def test_memory_does_not_grow_with_the_number_of_clips(tmp_path: Path, form: str) -> None:
    (tmp_path / "many").mkdir()
    clip = np.zeros((4, 100, 512), np.float32)
    for at in range(16):
        if form == "npz":
            np.savez(tmp_path / "many" / f"{at}.npz", **{f"{at}.wav": clip + at, "hop": np.array(320)})
        else:
            save_file({f"{at}.wav": clip + at}, tmp_path / "many" / f"{at}.safetensors", metadata=HOP)
    open_vectors(str(tmp_path / "many")).digest("0.wav")
    tracemalloc.start()
    try:
        found = open_vectors(str(tmp_path / "many"))
        assert len({found.digest(f"{at}.wav") for at in range(16)}) == 16
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A clip in float32 twice, and what finds one that is not finite; all of them are 13 MB.
    assert peak < 4 * clip.nbytes


def test_layers_are_told_from_models(tmp_path: Path) -> None:
    save_file({"x.wav": VALUES}, tmp_path / "vectors.safetensors", metadata=HOP)
    assert are_vectors(str(tmp_path)) and are_vectors(str(tmp_path / "vectors.safetensors"))
    assert not are_vectors(str(tmp_path / "absent")) and not are_vectors("facebook/hubert-base")
    (tmp_path / "config.json").write_text("{}")
    assert not are_vectors(str(tmp_path))
    (tmp_path / "config.json").unlink()
    (tmp_path / "vectors.safetensors").rename(tmp_path / "model.safetensors")
    assert not are_vectors(str(tmp_path))


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"hop": np.array(320)}, "no array of a clip"),
    "flat": ({"x": np.zeros(3, np.float32), "hop": np.array(320)}, "has the shape (3,)"),
    "four axes": ({"x": np.zeros((1, 1, 1, 1), np.float32)}, "has the shape (1, 1, 1, 1)"),
    "no layers": ({"x": np.zeros((0, 5, 4), np.float32)}, "has the shape (0, 5, 4)"),
    "layers": ({"x": np.zeros((1001, 1, 1), np.float16)}, "has the shape (1001, 1, 1)"),
    "numbers": ({"x": np.zeros((3, 5, 4), np.int32)}, "type int32"),
    "words": ({"x": np.full((3, 5), "a")}, "type <U1"),
    "objects": ({"x": np.full((3, 5), None)}, "Python objects"),
    "mixed": ({"x": VALUES, "y": VALUES[:, 0], "hop": np.array(320)}, "has 2 axes"),
    "hop": ({"x": VALUES, "hop": np.array(0.02)}, "'hop' is '0.02'"),
    # Frames of one layer, padded to one length, would pass for so many layers.
    "no frames": ({"x": VALUES[0], "y": VALUES[1], "hop": np.array(320)}, "no axis of frames"),
    "no hop": ({"x": VALUES}, "how far apart"),
}


@pytest.mark.parametrize("name", CASES)
def test_arrays_that_are_no_vectors_are_refused(tmp_path: Path, name: str) -> None:
    arrays, message = CASES[name]
    np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
    assert message in refused(tmp_path / "a.npz")


def test_hops_of_two_files_that_differ(tmp_path: Path) -> None:
    save_file({"x": VALUES}, tmp_path / "a.safetensors", metadata=HOP)
    save_file({"y": VALUES}, tmp_path / "b.safetensors")
    assert open_vectors(str(tmp_path)).hop == 320
    save_file({"y": VALUES}, tmp_path / "b.safetensors", metadata={"hop": "160"})
    assert "is 160 here, and 320 in" in refused(tmp_path)


def test_hostile_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    # An array that would unpack to 3.2 GB.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.wav.npy", "w") as member:
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 200000, 1000), }"
        member.write(b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + header.ljust(117) + b"\n")
        for _ in range(50):
            member.write(bytes(2**16))
    assert "promises" in refused(path)
    np.savez(path, **{"x.wav": VALUES, "hop": np.array(320)})
    found, data = open_vectors(str(path)), bytearray(path.read_bytes())
    data[-200:] = data[:200]
    path.write_bytes(data)
    assert "cannot be read" in refused(path)
    with pytest.raises(InputError, match="changed while it was read"):
        found.read("x.wav")
    # One value of a member that is stored, against its check sum.
    np.savez(path, **{"x.wav": VALUES, "hop": np.array(320)})
    data = bytearray(path.read_bytes())
    at = data.index(VALUES.tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="CRC"):
        open_vectors(str(path)).read("x.wav")
    save_file({"x.wav": VALUES}, tmp_path / "b.safetensors", metadata=HOP)
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "b.safetensors").read_bytes()[:-1])
    assert "bytes" in refused(tmp_path / "b.safetensors")


@pytest.mark.parametrize(
    ("frames", "fits"), [(48, True), (50, True), (52, True), (53, False), (47, False), (1500, False)]
)
def test_frames_fit_the_length_of_the_clip(tmp_path: Path, frames: int, fits: bool) -> None:
    save_file({"x": np.zeros((1, frames, 2), np.float32)}, tmp_path / "a.safetensors", metadata=HOP)
    found = open_vectors(str(tmp_path / "a.safetensors"))
    if fits:
        found.check_length("x", 16000, "m.csv:2")
        return
    with pytest.raises(InputError, match=f"{frames} frames, 320 samples apart") as caught:
        found.check_length("x", 16000, "m.csv:2")
    assert caught.value.where == "m.csv:2"


def test_two_clips_of_the_same_sound_have_vectors_of_their_own(tmp_path: Path) -> None:
    save_file({"a": VALUES, "b": 2 * VALUES}, tmp_path / "a.safetensors", metadata=HOP)
    found = open_vectors(str(tmp_path / "a.safetensors"))
    sound = Item(sha256="0" * 64, samples=1600, read=lambda: torch.zeros(1600))
    items = [stored_item(sound, found, key, found.digest(key)) for key in "ab"]
    embeddings = Embeddings(items, StoredStates, key=StoredStates.key, batching="single", cache=Cache(tmp_path / "c"))
    embeddings.compute(Silent(), "", frames=True)
    # Read again from the cache, and not from the file.
    (tmp_path / "a.safetensors").unlink()
    pooled = embeddings.pooled(range(3))
    assert torch.equal(pooled[:, 0], torch.from_numpy(VALUES).mean(1)) and torch.equal(pooled[:, 1], 2 * pooled[:, 0])
    frames = [embeddings.frames(batch)[0] for batch in embeddings.batches]
    assert torch.equal(frames[0], torch.from_numpy(VALUES).half()) and embeddings.frames(embeddings.batches[1])[1] == [
        5
    ]
