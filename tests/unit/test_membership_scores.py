import io
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from promised_arrays import promise

from audits.membership.membership_scores import AGAIN, BOTH, ScoreSet, ShadowScores, read_scores
from audits.membership.shadow_scores import NOT_FINITE
from probes.core.errors import InputError
from probes.core.hashing import sha256_file

RNG = np.random.default_rng(3)
N, MODELS, QUERIES, Z = 8, 5, 3, 6
SCORES = RNG.normal(size=N)
MEMBER = np.arange(N) % 2 == 0
CUBE = RNG.normal(size=(MODELS, N, QUERIES))
KEEP = np.arange(MODELS)[:, None] % 2 == np.arange(N) % 2
REFERENCE = RNG.normal(size=(MODELS, Z))


def write(tmp_path, text, name="s.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def save(tmp_path, saver=np.savez, /, **arrays) -> Path:
    path = tmp_path / "s.npz"
    saver(path, **arrays)
    return path


def read(path, higher_is="member", target=None) -> ScoreSet | ShadowScores:
    return read_scores(path, higher_is=higher_is, target=target)


def refuse(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.where} | {caught.value.hint}"


def test_a_table_gives_back_what_stands_in_it(tmp_path) -> None:
    path = write(tmp_path, "id,Score,member,group,note\na,1.5,1,x,?\n\nb,-2e-1,false,y,?\nc,3,TRUE,x,?\nd,.5,0.0,y,?\n")
    found = read(path)
    assert isinstance(found, ScoreSet)
    assert found.scores["score"].tolist() == [1.5, -0.2, 3.0, 0.5]
    assert found.scores["score"].dtype == np.float64
    assert found.member.tolist() == [True, False, True, False]
    assert found.names == ("a", "b", "c", "d")
    assert found.groups == ("x", "y", "x", "y")
    assert found.include_prob is None
    assert not found.one_run
    assert (found.given, found.skipped, found.sha256) == (4, {}, sha256_file(path))
    assert found.notes == ("Not used: note.",)


def test_several_columns_are_several_attacks_and_losses_are_turned_round(tmp_path) -> None:
    path = write(tmp_path, "loss_a\tscore_b\tincluded\tinclude_prob\n1\t10\t1\t.5\n2\t20\t0\t.25\n", "s.tsv")
    for higher_is, sign in (("member", 1), ("nonmember", -1)):
        found = read(path, higher_is)
        assert {name: values.tolist() for name, values in found.scores.items()} == {
            "a": [-1, -2],
            "b": [10 * sign, 20 * sign],
        }
    assert found.one_run
    assert found.include_prob.tolist() == [0.5, 0.25]
    assert found.names == ("2", "3")


@pytest.mark.parametrize("higher_is", [None, "nonmember"])
def test_a_loss_needs_no_word_about_its_direction(tmp_path, higher_is) -> None:
    found = read(write(tmp_path, "loss,member\n1,1\n2,0\n"), higher_is)
    assert found.scores["loss"].tolist() == [-1, -2]


def test_more_rows_than_a_block_keep_their_order_and_lines(tmp_path) -> None:
    rows = [f"{place}.5,{place % 2}" for place in range(10_000)]
    found = read(write(tmp_path, "\n".join(["score,member", *rows])))
    assert (found.scores["score"] == np.arange(10_000) + 0.5).all()
    assert (found.member == np.arange(10_000) % 2).all()
    assert found.names[-1] == "10001"
    rows[9000] = "abc,1"
    assert ":9002, score" in refuse(write(tmp_path, "\n".join(["score,member", *rows])))


def test_scores_that_are_no_numbers_are_counted(tmp_path) -> None:
    path = write(tmp_path, "score_a,score_b,member\n1,1,1\n2,nan,1\n3,,0\n4,4,0\n-inf,5,1\n6,6,0\n7,7,0\n")
    found = read(path)
    assert found.scores["a"].tolist() == [1, 4, 6, 7]
    assert found.names == ("2", "5", "7", "8")
    assert (found.given, found.skipped) == (7, {NOT_FINITE: 3})


def test_more_than_half_that_are_no_numbers_are_refused(tmp_path) -> None:
    head, bad = "score,member\n1,1\n2,0\n", "nan,1\n"
    assert read(write(tmp_path, head + 2 * bad)).given == 4
    assert "3 of 5" in refuse(write(tmp_path, head + 3 * bad))


def test_an_id_on_both_sides_is_left_out_and_one_given_twice_is_kept_once(tmp_path) -> None:
    path = write(tmp_path, "id,score,member\na,1,1\nb,nan,1\na,2,0\nb,3,1\nc,4,0\nc,5,0\nc,6,0\n")
    found = read(path)
    assert found.names == ("b", "c")
    assert found.scores["score"].tolist() == [3, 4]
    assert found.skipped == {BOTH: 2, NOT_FINITE: 1, AGAIN: 2}
    assert found.given == len(found.names) + sum(found.skipped.values())


def test_constant_scores_are_kept(tmp_path) -> None:
    assert read(write(tmp_path, "score,member\n1,1\n1,0\n")).scores["score"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("score,member\n1,1\n\n2,maybe\n", {}, ("'maybe'", ":4, member")),
        ("score,member\n1,1\n2,1\n", {}, ("no non-member",)),
        ("score,member\n1,0\n2,0\n", {}, ("no member",)),
        ("score,member,id\n1,0,a\n\n2,0\n", {}, ("2 fields", ":4")),
        ("", {}, ("empty",)),
        ('""\n', {}, ("none",)),
        ("score;member\n1;1\n", {}, ("no non-member",)),
        ("value,member\n1,1\n", {}, ("scores: none", "value")),
        ("score,label\n1,1\n", {}, ("membership: none",)),
        ("score,member,included\n1,1,1\n", {}, ("member, included",)),
        ("score_a,loss_a,member\n1,1,1\n", {}, ("an attack each",)),
        ("score,member,weight\n1,1,1\n2,0,1\n", {}, ("weight",)),
        ("id,score,member\n,1,1\nb,2,0\n", {}, ("point 0",)),
        ("score,member,include_prob\n1,1,.5\n2,0,1\n", {}, ("number 1 is 1",)),
        ("score,member,include_prob\n1,1,.5\n2,0,nan\n", {}, ("number 1 is nan",)),
        ('score,member\n1,"1\n2,0\n', {}, ("quotation",)),
        ('id,score,member\n"a\nb",1,1\n"c\r\n\n",2,0\n"\r",3,2\n', {}, ("'2'", ":7, member")),
        ("score,member\n1,1\n2,0\n", {"higher_is": None}, ("--higher-is", "'score'")),
        ("loss,member\n1,1\n2,0\n", {"higher_is": "member"}, ("opposite",)),
        ("score,member\n1,1\n2,0\n", {"higher_is": "up"}, ("'up'",)),
        ("score,member\n1,1\n2,0\n", {"target": 0}, ("target",)),
    ],
)
def test_what_is_wrong_in_a_table_is_said_with_its_place(tmp_path, text, options, words) -> None:
    said = refuse(write(tmp_path, text), **options)
    for word in words:
        assert word in said


@pytest.mark.parametrize("saver", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f4", np.int16])
def test_scores_and_members_of_an_archive(tmp_path, saver, dtype) -> None:
    values = (SCORES * 100).astype(dtype)
    found = read(save(tmp_path, saver, scores=values, member=MEMBER.astype(np.int8)), "nonmember")
    assert (found.scores["score"] == -values.astype(np.float64)).all()
    assert (found.member == MEMBER).all()
    assert found.names == tuple(map(str, range(N)))


def test_several_scores_of_a_point_are_averaged_and_told(tmp_path) -> None:
    found = read(save(tmp_path, scores=np.asfortranarray(CUBE[0]), included=MEMBER, include_prob=np.full(N, 0.5)))
    np.testing.assert_allclose(found.scores["score"], CUBE[0].mean(axis=1))
    assert "averaged" in found.notes[0]
    assert found.one_run
    assert found.include_prob.tolist() == [0.5] * N


def test_members_and_others_in_two_arrays(tmp_path) -> None:
    found = read(save(tmp_path, loss_train=SCORES[:3], loss_test=SCORES[3:]), None)
    assert found.scores["loss"].tolist() == (-SCORES).tolist()
    assert found.member.tolist() == [True] * 3 + [False] * 5
    found = read(save(tmp_path, in_scores=SCORES[:3], out_scores=SCORES[3:]))
    assert found.scores["score"].tolist() == SCORES.tolist()


def test_ids_and_groups_of_an_archive(tmp_path) -> None:
    ids = np.array(list("abcdefga"))
    found = read(save(tmp_path, loss=SCORES, member=MEMBER, id=ids, group=np.arange(N)), None)
    assert found.names == tuple("bcdefg")
    assert found.groups == tuple("123456")
    assert found.skipped == {BOTH: 2}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"scores": SCORES}, ("none of the arrays member",)),
        ({"member": MEMBER}, ("none of the arrays scores",)),
        ({"scores": SCORES, "loss": SCORES, "member": MEMBER}, ("scores and loss",)),
        ({"scores": SCORES, "member": MEMBER[:-1]}, ("8 scores and 7", ", member")),
        ({"scores": SCORES, "member": np.arange(N)}, ("2 is neither 0 nor 1", "member[2]")),
        ({"scores": SCORES, "member": np.full(N, np.nan)}, ("nan is neither",)),
        ({"scores": CUBE, "member": MEMBER}, ("1 or 2 axes", ", scores")),
        ({"scores": SCORES.astype(object), "member": MEMBER}, ("Python objects", ", scores")),
        ({"scores": SCORES + 1j, "member": MEMBER}, ("complex128",)),
        ({"scores": SCORES, "member": np.array(["yes"] * N)}, ("type <U3", ", member")),
        ({"scores": np.zeros((N, 0)), "member": MEMBER}, ("(8, 0)",)),
        ({"scores": SCORES, "member": MEMBER, "id": np.arange(3)}, ("(3,)", ", id")),
        ({"scores": SCORES, "member": MEMBER, "weight": SCORES}, ("weight",)),
        ({"scores": SCORES, "member": MEMBER, "include_prob": np.zeros(N)}, ("number 0 is 0",)),
        ({"scores": SCORES, "member": MEMBER, "include_prob": np.full(3, 0.5)}, ("3 probabilities",)),
        ({"scores": np.full(N, np.nan), "member": MEMBER}, ("8 of 8",)),
        ({"scores": SCORES, "member": np.zeros(N)}, ("no member",)),
        ({"scores": CUBE, "keep": KEEP[:, 1:]}, ("(5, 8)", "(5, 7)", ", keep")),
        ({"scores": CUBE, "keep": KEEP * 2}, ("2 is neither", "keep[0, 0]")),
        ({"scores": SCORES, "keep": KEEP}, ("2 or 3 axes", ", scores")),
        ({"scores": CUBE, "keep": KEEP[0]}, ("needs 2 axes", ", keep")),
        ({"scores": CUBE[:1], "keep": KEEP[:1]}, ("1 models",)),
        ({"scores": CUBE, "keep": np.zeros((MODELS, N))}, ("no member",)),
        ({"scores": CUBE, "keep": KEEP, "target": 5}, ("no model 5", "target")),
        ({"scores": CUBE, "keep": KEEP, "target": -1}, ("no model -1",)),
        ({"scores": CUBE, "keep": KEEP, "target": 1.5}, ("1.5", ", target")),
        ({"scores": CUBE, "keep": KEEP, "target": [0, 1]}, ("2 numbers", ", target")),
        ({"scores": CUBE, "keep": KEEP, "ref_scores": REFERENCE[1:]}, ("(4, 6)", ", ref_scores")),
        ({"scores": CUBE, "keep": KEEP, "ref_scores": REFERENCE * np.nan}, ("reference", ", ref_scores")),
        ({"scores": CUBE * np.nan, "keep": KEEP}, ("8 of 8",)),
    ],
)
def test_what_is_wrong_in_an_archive_is_said_with_its_key(tmp_path, arrays, words) -> None:
    said = refuse(save(tmp_path, **arrays))
    for word in words:
        assert word in said


def test_an_archive_needs_to_be_told_the_direction(tmp_path) -> None:
    for arrays in ({"scores": SCORES, "member": MEMBER}, {"scores": CUBE, "keep": KEEP}):
        assert "--higher-is" in refuse(save(tmp_path, **arrays), higher_is=None)


@pytest.mark.parametrize(("asked", "written", "target"), [(None, None, MODELS - 1), (None, 1, 1), (2, 1, 2)])
def test_scores_of_several_models(tmp_path, asked, written, target) -> None:
    beside = {} if written is None else {"target": written}
    found = read(save(tmp_path, scores=CUBE, keep=KEEP, ref_scores=REFERENCE, **beside), "nonmember", asked)
    assert isinstance(found, ShadowScores)
    np.testing.assert_array_equal(found.scores, -CUBE)
    np.testing.assert_array_equal(found.keep, KEEP)
    np.testing.assert_array_equal(found.reference, -REFERENCE)
    assert (found.target, found.given, found.skipped) == (target, N, {})
    assert found.scale == "unknown"


def test_points_without_finite_scores_under_all_models_are_left_out(tmp_path) -> None:
    scores, reference = CUBE[..., 0].copy(), REFERENCE.copy()
    scores[2, 3], reference[1, 4] = np.nan, np.inf
    found = read(save(tmp_path, loss=scores, keep=KEEP, ref_scores=reference), None)
    rest = [place for place in range(N) if place != 3]
    np.testing.assert_array_equal(found.scores, -scores[:, rest, None])
    np.testing.assert_array_equal(found.keep, KEEP[:, rest])
    assert found.names == tuple(map(str, rest))
    assert found.skipped == {NOT_FINITE: 1}
    assert found.reference.shape == (MODELS, Z - 1)
    assert found.notes[0].startswith("1 of 6 reference points")


def archive(tmp_path, entries) -> Path:
    path = tmp_path / "h.npz"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries:
            file.writestr(name, content)
    return path


def npy(values) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def header(shape, dtype="<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (header((10**12,)) + bytes(64), "promises"),
        (header((-1,)), "promises"),
        (header((10**12, 0)), "(1000000000000, 0)"),
        (header((8,), "|O") + bytes(64), "Python objects"),
        (b"\x93NUMPY\x01\x00\xff\xff", "cannot be read"),
        (b"nothing", "cannot be read"),
    ],
)
def test_a_header_that_lies_takes_no_memory(tmp_path, content, word) -> None:
    path = archive(tmp_path, [("scores.npy", content), ("member.npy", npy(MEMBER))])
    tracemalloc.start()
    try:
        assert word in refuse(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path) -> None:
    path = promise(archive(tmp_path, [("member.npy", npy(MEMBER))]), descr="<f8", scores=(2**25 + 1,))
    tracemalloc.start()
    try:
        assert "times its size" in refuse(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_an_archive_with_one_name_twice_is_refused(tmp_path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = archive(tmp_path, [("scores.npy", npy(SCORES)), ("scores.npy", npy(-SCORES))])
    assert "twice" in refuse(path)


def test_a_damaged_archive_is_refused(tmp_path) -> None:
    path = save(tmp_path, np.savez_compressed, scores=RNG.normal(size=500), member=np.arange(500) % 2)
    content = path.read_bytes()
    for broken in (content[:300], content[:200] + bytes(60) + content[260:], b"not a zip"):
        path.write_bytes(broken)
        refuse(path)


def test_what_is_no_file_of_scores_is_refused(tmp_path) -> None:
    np.save(tmp_path / "s.npy", SCORES)
    assert "who is a member" in refuse(tmp_path / "s.npy")
    assert "no such file" in refuse(tmp_path / "absent.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    assert "ordinary" in refuse(tmp_path / "pipe.csv")
    assert "experiment_" in refuse(tmp_path)


def test_tables_and_archives_are_read_without_torch(tmp_path) -> None:
    paths = [str(write(tmp_path, "loss,member\n1,1\n2,0\n")), str(save(tmp_path, loss=CUBE, keep=KEEP))]
    code = (
        "import json, sys; from pathlib import Path; from audits.membership.membership_scores import read_scores\n"
        "[read_scores(Path(path), higher_is=None, target=None) for path in json.loads(sys.argv[1])]\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(paths)], check=True)
