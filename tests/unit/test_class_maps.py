"""Does a file of classes say which output each folder is, in every usual form, and is what it lacks refused?"""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from probes.classifiers.class_maps import read_class_map
from probes.classifiers.images import Images, load_images
from probes.core.errors import InputError

IDS = ["n01440764", "n01443537", "n02012849", "n03126707"]
NAMES = ["tench", "goldfish", "crane", "crane"]
FORMS = {
    "imagenet_class_index.json": json.dumps(
        {str(i): [one, name] for i, (one, name) in enumerate(zip(IDS, NAMES, strict=True))}
    ),
    "LOC_synset_mapping.txt": "".join(f"{one} {name}, Other name\n" for one, name in zip(IDS, NAMES, strict=True)),
    "synsets.txt": "\n".join(IDS) + "\n\n",
    "indices.json": json.dumps({one: index for index, one in enumerate(IDS)}),
    "list.json": json.dumps(IDS),
    "map.csv": "index,folder,name\n" + "".join(f"{i},{IDS[i]},{NAMES[i]}\n" for i in (3, 0, 2, 1)),
    "map.tsv": "wnid\tlabel\n" + "".join(f"{one}\t{index}\n" for index, one in enumerate(IDS)),
}


def folders(root: Path, names: list[str]) -> Path:
    for place, name in enumerate(names):
        (root / name).mkdir(parents=True)
        Image.new("RGB", (6, 5), (place, 0, 0)).save(root / name / "a.png")
    return root


def mapped(root: Path, path: Path, **more: object) -> Images:
    return load_images(root, class_map=read_class_map(path), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMS)
def test_every_usual_form_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FORMS[name])
    found = read_class_map(tmp_path / name)
    assert dict(found.indices) == {one: index for index, one in enumerate(IDS)}
    named = name in ("imagenet_class_index.json", "LOC_synset_mapping.txt", "map.csv")
    assert dict(found.names) == (dict(enumerate(NAMES)) if named else {})


def test_a_subset_of_folders_gets_the_outputs_of_the_map(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text(FORMS["imagenet_class_index.json"])
    root = folders(tmp_path / "data", [IDS[3], IDS[1]])
    images = mapped(root, tmp_path / "index.json")
    assert dict(zip(images.names, images.labels.tolist(), strict=True)) == {f"{IDS[1]}/a.png": 1, f"{IDS[3]}/a.png": 3}
    assert images.class_names == tuple(NAMES)
    assert "2 of the 4 classes of index.json are here: 1 n01443537, 3 n03126707." in images.notes
    # Without the map the alphabet would make them 0 and 1.
    plain = load_images(root)
    assert sorted(plain.labels.tolist()) == [0, 1] and plain.sha256 != images.sha256


def test_labels_of_a_table_are_mapped_too(tmp_path: Path) -> None:
    root = folders(tmp_path / "data", ["x"])
    (root / "metadata.csv").write_text(f"file_name,label\nx/a.png,{IDS[2]}\n")
    (tmp_path / "synsets.txt").write_text(FORMS["synsets.txt"])
    assert mapped(root, tmp_path / "synsets.txt").labels.tolist() == [2]


def test_several_folders_may_share_an_output(tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text("folder,index\nheron,1\nstork,1\ncat,0\n")
    root = folders(tmp_path / "data", ["heron", "stork", "cat"])
    assert sorted(mapped(root, tmp_path / "map.csv").labels.tolist()) == [0, 1, 1]


def test_folders_that_the_map_lacks_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "synsets.txt").write_text(FORMS["synsets.txt"])
    root = folders(tmp_path / "data", [IDS[0], "n99999999", "background"])
    with pytest.raises(
        InputError, match=r"2 of 3 class folders are not in synsets\.txt: background, n99999999"
    ) as raised:
        mapped(root, tmp_path / "synsets.txt")
    assert "--class-map" in str(raised.value.where) and "Add them to the file" in str(raised.value.hint)


def test_names_of_folders_may_hold_spaces(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("great white shark\ntiger cat\n")
    assert dict(read_class_map(tmp_path / "names.txt").indices) == {"great white shark": 0, "tiger cat": 1}


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.txt", "\n \n", "is empty"),
        ("a.txt", f"{IDS[0]}\n{IDS[1]}\n{IDS[0]}\n", "has the outputs 0 and 2"),
        ("a.txt", f"{IDS[0]}\n{IDS[0]}\n", "has the outputs 0 and 1"),
        ("a.json", "{}", "names no class"),
        ("a.json", '{"0": []}', "is no class"),
        ("a.json", '{"0": ["a", "b", "c"]}', "is no class"),
        ("a.json", '{"a": true}', "is no class"),
        ("a.json", '{"a": "b"}', "is no number of an output"),
        ("a.json", '{"a": -1}', "is no number of an output"),
        ("a.json", '{"a": 99999999}', "is no number of an output"),
        ("a.json", '{"0": "a\\u001b[2J"}', "is no name of a folder"),
        ("a.csv", "folder,number\na,1\n", "no column index"),
        ("a.csv", "name,index\na,1\n", "no column folder"),
        ("a.csv", "folder,index\na,1.5\n", "is no number of an output"),
        ("a.csv", "folder,index\na,1\na,2\n", "has the outputs 1 and 2"),
    ],
)
def test_what_says_no_outputs_is_refused(tmp_path: Path, name: str, text: str, what: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=what) as raised:
        read_class_map(tmp_path / name)
    assert str(raised.value.where).startswith(str(tmp_path / name)) and raised.value.hint


def test_a_thousand_ids_are_taken_in_their_order_and_that_is_said(tmp_path: Path) -> None:
    names = [f"n{10_000_000 + 37 * number}" for number in range(1000)]
    root = tmp_path / "data"
    for name in names:
        (root / name).mkdir(parents=True)
    Image.new("RGB", (6, 5)).save(root / names[700] / "a.png")
    images = load_images(root)
    assert images.labels.tolist() == [700]
    assert any("1000 ids of WordNet" in note for note in images.notes)
    (root / names[0]).rmdir()
    assert not any("ids of WordNet" in note for note in load_images(root).notes)


def test_arrays_need_no_map(tmp_path: Path) -> None:
    (tmp_path / "synsets.txt").write_text(FORMS["synsets.txt"])
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 3, 9, 9)), y=np.zeros(2, dtype=int))
    with pytest.raises(InputError, match="Only folders by class") as raised:
        mapped(tmp_path / "data.npz", tmp_path / "synsets.txt")
    assert raised.value.where == "--class-map"
