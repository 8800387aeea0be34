"""Are data sets in folders and in the hub's cache read as one table, and refused with their splits where unclear?"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probes.core.errors import InputError
from probes.core.hashing import sha256_file, sha256_folder
from probes.files import hub_datasets, saved_datasets
from probes.files.hub_datasets import find_files, parse_address
from probes.files.table_sources import find_table, is_dataset, reported_path, sha256_table
from probes.files.tables import read_table
from probes.texts.text_files import read_texts

pa = pytest.importorskip("pyarrow")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def parquet(path: Path, **columns: Any) -> Path:
    from pyarrow import parquet as files

    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_table(pa.table(columns), path)
    return path


def arrow(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    return path


def saved(folder: Path, *parts: list[str]) -> Path:
    """Write what `Dataset.save_to_disk` writes."""
    names = [f"data-{number:05}-of-{len(parts):05}.arrow" for number in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        arrow(folder / name, text=part)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def texts(path: Path | str) -> list[str | None]:
    return [row.values["text"] for row in read_table(Path(path)).rows]


def refused(call: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.where and caught.value.hint
    return caught.value


def test_a_saved_dataset_is_a_table_whose_rows_are_counted_through(tmp_path: Path) -> None:
    folder = saved(tmp_path / "set", ["a", "b"], ["c"])
    table = read_table(folder)
    assert [(row.line, row.values["text"]) for row in table.rows] == [(1, "a"), (2, "b"), (3, "c")]
    parts = tuple(folder / f"data-0000{number}-of-00002.arrow" for number in (0, 1))
    assert (table.path, table.sources, sha256_table(folder)) == (folder, parts, sha256_folder(parts))
    assert is_dataset(folder) and not is_dataset(tmp_path / "none") and not is_dataset(parts[0])
    found = read_texts(folder)
    assert (found.texts, found.places.tolist(), found.where) == (("a", "b", "c"), [1, 2, 3], "row")


def test_a_split_is_named_behind_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    saved(folder / "test", ["t"])
    saved(folder / "train", ["a"])
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    error = refused(lambda: read_table(folder))
    assert error.message == "There are several splits: test, train." and f"{folder}:train" in error.hint
    assert (texts(f"{folder}:test"), texts(folder / "train")) == (["t"], ["a"])
    assert sha256_table(Path(f"{folder}:test")) == sha256_file(folder / "test" / "data-00000-of-00001.arrow")
    assert "There is no split 'dev'; there are: test, train." in refused(lambda: texts(f"{folder}:dev")).message
    assert "no splits" in refused(lambda: texts(f"{folder / 'train'}:train")).message
    (folder / "out").symlink_to(saved(tmp_path / "elsewhere", ["x"]))
    assert "leads out of its folder" in refused(lambda: texts(f"{folder}:out")).message


def test_parts_in_parquet_are_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    parquet(folder / "data" / "train-00001-of-00002-0123456789abcdef.parquet", text=["b"])
    parquet(folder / "data" / "train-00000-of-00002-0123456789abcdef.parquet", text=["a"])
    (folder / "README.md").write_text("---\n")
    assert texts(folder) == ["a", "b"]
    parquet(folder / "data" / "test-00000-of-00001.parquet", text=["t"])
    assert texts(f"{folder}:test") == ["t"]
    assert "several splits: test, train" in refused(lambda: texts(folder)).message
    parquet(folder / "de" / "dev" / "0000.parquet", text=["d"])
    parquet(folder / "de" / "dev" / "0001.parquet", text=["e"])
    assert texts(f"{folder}:de/dev") == ["d", "e"]
    parquet(folder / "de" / "dev" / "0001.parquet", other=["e"])
    error = refused(lambda: texts(f"{folder}:de/dev"))
    assert "other columns" in error.message and error.where.endswith("0001.parquet")


def test_a_part_that_is_lacking_is_told(tmp_path: Path) -> None:
    part = parquet(tmp_path / "hub" / "train-00000-of-00003.parquet", text=["a"])
    parquet(tmp_path / "hub" / "train-00002-of-00003.parquet", text=["c"])
    error = refused(lambda: texts(tmp_path / "hub"))
    assert error.message == "There are 2 of 3 parts: 00001-of-00003 is lacking."
    parquet(tmp_path / "hub" / "train-00000-of-00001.parquet", text=["c"])
    assert "several sets" in refused(lambda: texts(tmp_path / "hub")).message
    part.unlink()
    part.symlink_to(parquet(tmp_path / "x.parquet", text=["x"]))
    (tmp_path / "hub" / "train-00002-of-00003.parquet").unlink()
    (tmp_path / "hub" / "train-00000-of-00001.parquet").unlink()
    part.rename(tmp_path / "hub" / "train.parquet")
    assert "leads out of its folder" in refused(lambda: texts(tmp_path / "hub")).message


def test_other_folders_are_no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.wav", "b.wav", "c.csv"):
        (tmp_path / name).touch()
    error = refused(lambda: read_table(tmp_path))
    assert error.message == "This is a folder, not a file." and "save_to_disk" in error.hint
    monkeypatch.setattr(saved_datasets, "MOST_FILES", 2)
    # A large folder is a corpus of recordings, or a whole disk, and no data set.
    parquet(tmp_path / "train.parquet", text=["a"])
    assert saved_datasets.files_below(tmp_path) == [] and not is_dataset(tmp_path)
    monkeypatch.setattr(saved_datasets, "MOST_FILES", 4)
    assert is_dataset(tmp_path) and texts(tmp_path) == ["a"]


def test_a_path_leads_into_the_cells_of_parquet(tmp_path: Path) -> None:
    chats = [[{"role": "user", "content": "go"}, {"role": "assistant", "content": text}] for text in ("up", "no")]
    path = parquet(tmp_path / "a.parquet", messages=chats, picture=[b"1", b"2"])
    assert read_texts(path, column="messages.-1.content").texts == ("up", "no")
    assert read_texts(path, column="text,messages.0.content").texts == ("go", "go")
    error = refused(lambda: read_texts(path, column="messages.2.content"))
    assert "none of the 2 entries" in error.message and error.where == f"{path}, row 1"
    assert "messages.-1.content" in error.hint
    parquet(path, messages=[chats[0], None, []])
    error = refused(lambda: read_texts(path, column="messages.-1.content"))
    assert "1 of 3 entries" in error.message and error.where == f"{path}, row 2"
    assert "no column 'said.0'" in refused(lambda: read_texts(path, column="said.0")).message


# The hub.
@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache of the hub with one data set, as huggingface_hub lays it out."""
    home = tmp_path / "cache"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    repo = home / "datasets--a--chats"
    (repo / "refs" / "refs" / "convert").mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    (repo / "refs" / "refs" / "convert" / "parquet").write_text(COMMIT[::-1])
    blobs = {
        f"{COMMIT}/data/train-00000-of-00002.parquet": parquet(repo / "blobs" / "b0", text=["a"]),
        f"{COMMIT}/data/train-00001-of-00002.parquet": parquet(repo / "blobs" / "b1", text=["b"]),
        f"{COMMIT}/data/test-00000-of-00001.parquet": parquet(repo / "blobs" / "b2", text=["t"]),
        f"{COMMIT}/extra/more.csv": repo / "blobs" / "b3",
        f"{COMMIT[::-1]}/default/train/0000.parquet": parquet(repo / "blobs" / "b4", text=["c"]),
    }
    (repo / "blobs" / "b3").write_text("text\nm\n")
    for name, blob in blobs.items():
        link = repo / "snapshots" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return home


def test_a_split_or_a_file_of_the_hub_is_read_from_its_cache(cache: Path) -> None:
    table = read_table(Path("hf://datasets/a/chats@main/train"))
    assert [(row.line, row.values["text"]) for row in table.rows] == [(1, "a"), (2, "b")]
    # What a branch stands for is recorded.
    assert table.notes == (f"main of a/chats is the commit {COMMIT}.",)
    assert reported_path(Path("hf://datasets/a/chats@main/train")) == f"hf://datasets/a/chats@{COMMIT}/train"
    assert sha256_table(table.path) == sha256_folder(table.sources)
    assert read_table(Path(f"hf://datasets/a/chats@{COMMIT}/test")).notes == ()
    assert texts("hf://datasets/a/chats@main/extra/more.csv") == ["m"]
    assert texts("hf://datasets/a/chats@main/data/test-00000-of-00001.parquet") == ["t"]
    assert texts("hf://datasets/a/chats@refs/convert/parquet/default/train") == ["c"]
    assert texts("hf://datasets/a/chats@refs/convert/parquet") == ["c"]
    assert read_texts(Path("hf://datasets/a/chats@main/train")).texts == ("a", "b")


def test_what_is_unclear_or_not_in_the_cache_is_refused_with_the_command(cache: Path) -> None:
    error = refused(lambda: texts("hf://datasets/a/chats@main"))
    assert error.message == "There are several splits: test, train."
    assert "hf://datasets/a/chats@main/train" in error.hint
    assert "no split 'dev'" in refused(lambda: texts("hf://datasets/a/chats@main/dev")).message
    error = refused(lambda: texts("hf://datasets/a/chats@main/extra/other.csv"))
    assert error.message == "There is no 'extra/other.csv' among its files in the hub cache."
    assert "extra/more.csv" in error.hint and "hf download a/chats --repo-type dataset --revision main" in error.hint
    for name in ("a/other@main", "a/chats@v2"):
        error = refused(lambda: texts(f"hf://datasets/{name}/train"))  # noqa: B023
        assert "HF_HUB_OFFLINE is set" in error.message and "hf download" in error.hint
    error = refused(lambda: texts("hf://datasets/a/chats"))
    assert error.message == "No revision is named." and "hf://datasets/a/chats@main/SPLIT" in error.hint
    for text in ("hf://a/chats@main", "hf://datasets/a/b/c@main", "hf://datasets/a/../b@main", "hf://datasets/a b@x"):
        assert refused(lambda: parse_address(text)).message == "This is no data set of the hub."  # noqa: B023
    (cache / "datasets--a--chats" / "blobs" / "b1").unlink()
    hub_datasets._found.cache_clear()
    error = refused(lambda: texts("hf://datasets/a/chats@main/train"))
    assert "link to nothing in the hub's cache" in error.message and "hf download" in error.hint
    (cache / "datasets--a--chats" / "snapshots" / COMMIT / "data" / "train-00001-of-00002.parquet").unlink()
    hub_datasets._found.cache_clear()
    assert "1 of 2 parts" in refused(lambda: texts("hf://datasets/a/chats@main/train")).message


def test_a_hub_that_does_not_answer_is_told_with_what_the_cache_has(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    def unreachable(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", unreachable)
    error = refused(lambda: texts("hf://datasets/a/chats@main/train"))
    assert error.message == "The hub gave no data set: no route" and "HF_HUB_OFFLINE=1 takes that" in error.hint
    # A commit cannot change: the hub is not asked.
    assert texts(f"hf://datasets/a/chats@{COMMIT}/train") == ["a", "b"]
    assert "HF_HUB_OFFLINE=1" not in refused(lambda: texts("hf://datasets/a/other@main/train")).hint


def test_a_link_out_of_the_cache_is_not_followed(cache: Path, tmp_path: Path) -> None:
    link = cache / "datasets--a--chats" / "snapshots" / COMMIT / "data" / "test-00000-of-00001.parquet"
    link.unlink()
    link.symlink_to(parquet(tmp_path / "outside.parquet", text=["x"]))
    assert "leads out of its folder" in refused(lambda: texts("hf://datasets/a/chats@main/test")).message


class _Hub:
    """The hub, as far as it is asked: what it holds, and what was fetched from it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.fetched = folder, []  # type: ignore[var-annotated]

    def dataset_info(self, name: str, *, revision: str, timeout: float) -> Any:
        from types import SimpleNamespace

        if name != "a/chats":
            raise ConnectionError("no such data set\nmore")
        files = ["README.md", "run.py", "data/test-00000-of-00001.parquet", "data/train[1].parquet"]
        return SimpleNamespace(sha=COMMIT, siblings=[SimpleNamespace(rfilename=file) for file in files])

    def snapshot(self, name: str, *, revision: str, **options: Any) -> str:
        if options.get("local_files_only"):
            raise FileNotFoundError(name)
        self.fetched.append((name, revision, options["allow_patterns"]))
        return str(self.folder)


def test_only_the_files_of_the_split_are_fetched_at_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / COMMIT
    parquet(folder / "data" / "test-00000-of-00001.parquet", text=["t"])
    hub = _Hub(folder)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub.snapshot)
    assert texts("hf://datasets/a/chats@main/test") == ["t"]
    assert find_table(Path("hf://datasets/a/chats@main/test")).written == f"hf://datasets/a/chats@{COMMIT}/test"
    # Once in a run: a branch may move meanwhile.
    assert hub.fetched == [("a/chats", COMMIT, ["data/test-00000-of-00001.parquet"])]
    error = refused(lambda: find_files("hf://datasets/a/none@main/test"))
    assert error.message == "The hub gave no data set: no such data set" and "hf download" in error.hint
    assert "several splits" in refused(lambda: find_files("hf://datasets/a/chats@main")).message


@pytest.mark.parametrize("text", ["../../../elsewhere", "../../../elsewhere/" + COMMIT, "main"])
def test_a_branch_of_the_cache_stands_for_a_commit_and_no_path(cache: Path, tmp_path: Path, text: str) -> None:
    for folder in (cache / "datasets--a--chats" / "snapshots" / text, cache.parent / "elsewhere"):
        folder.mkdir(parents=True, exist_ok=True)
        parquet(folder / "train.parquet", text=["x"])
    (cache / "datasets--a--chats" / "refs" / "main").write_text(text)
    assert "not in the hub's cache" in refused(lambda: texts("hf://datasets/a/chats@main/train")).message


def test_a_part_of_a_saved_dataset_stands_once(tmp_path: Path) -> None:
    folder = saved(tmp_path / "a", ["x"])
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({"_data_files": state["_data_files"] * 2}))
    assert "twice" in refused(lambda: texts(folder)).message
