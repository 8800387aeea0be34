"""Are sentences drawn by the rule that is written down, from any file that is text, and is every other file refused?"""

import gzip
import hashlib
import os
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from probes.core.errors import InputError
from probes.language_models.language_corpora import (
    ALSO_HELD,
    BLANK,
    NOT_DRAWN,
    Attributes,
    LanguageText,
    check_codes,
    read_attributes,
    read_language,
    shared_content,
    shared_sentences,
)

SPACES = ("", "  \t", "\u3000", "\u00a0 ", "\u2003\u2028")
WORDS = ("one", "été", "слово", "文", "🙂", "quite a long sentence of many words", "‘quoted’", "\u1680x", "\u3000「y」")


def write(folder: Path, content: str | bytes, name: str = "en.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def numbered(count: int, start: int = 0) -> str:
    return "".join(f"sentence {number:06}\n" for number in range(start, start + count))


def read(
    folder: Path, code: str = "en", *, seed: int = 0, train: int = 1000, held: int = 100, **limits: int
) -> LanguageText:
    return read_language(folder, code, seed=seed, train_bytes=train, held_bytes=held, **limits)


def refuse(folder: Path, code: str = "en", **options) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, code, **options)
    error = caught.value
    assert error.message and error.where and error.hint
    return f"{error.message} | {error.where.replace(str(folder), 'DIR')} | {error.hint}"


def by_hand(text: str, seed: int, train_bytes: int, held_bytes: int) -> tuple[list[str], list[str], Counter[str]]:
    """Return held-out and training sentences and what is skipped, by the rule as it is written down."""
    key = hashlib.blake2b(f"sentences {seed}".encode(), digest_size=16).digest()
    source = np.random.Philox(key=np.frombuffer(key, "<u8"))
    lines = [line.strip() for line in text.removesuffix("\n").split("\n")]
    priority = source.random_raw(len(lines))
    order = [lines[place] for place in np.argsort(priority) if lines[place]]
    held: list[str] = []
    train: list[str] = []
    skipped = Counter({BLANK: len(lines) - len(order)})

    def size(sentences: list[str]) -> int:
        return sum(len(sentence.encode()) + 1 for sentence in sentences)

    closed = False
    for sentence in order:
        if not train and not closed and len(held) < len(order) // 5 and size(held) < held_bytes:
            if sentence in held:
                skipped[ALSO_HELD] += 1
            else:
                held.append(sentence)
        elif closed or (sentence not in held and size([*train, sentence]) > train_bytes):
            closed = True
            skipped[NOT_DRAWN] += 1
        elif sentence in held:
            skipped[ALSO_HELD] += 1
        else:
            train.append(sentence)
    return held, train, +skipped


def mixed(seed: int, lines: int) -> str:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(lines):
        blank = rng.random() < 0.1
        words = [] if blank else [WORDS[k] for k in rng.integers(len(WORDS), size=rng.integers(1, 4))]
        made.append(" ".join(words) + SPACES[rng.integers(len(SPACES))] if words or blank else "x")
    return "\n".join(made)


@pytest.mark.parametrize("block", [300, 4096, 2**22])
@pytest.mark.parametrize(
    ("lines", "train", "held"), [(40, 10**6, 200), (300, 10**6, 10**6), (2000, 1500, 700), (2000, 400, 2500)]
)
def test_the_sample_is_the_one_of_the_rule(tmp_path: Path, block: int, lines: int, train: int, held: int) -> None:
    for seed in range(3):
        text = mixed(seed, lines) + "\n" * (seed % 2)
        # The pool is small, so that most sentences are put into it and taken out again.
        found = read(write(tmp_path, text), seed=seed, train=train, held=held, longest=300, block=block)
        kept, learnt, skipped = by_hand(text, seed, train, held)
        assert [sentence.decode() for sentence in found.held] == kept
        assert [sentence.decode() for sentence in found.train] == learnt
        assert found.skipped == skipped
        assert found.given == len(text.removesuffix("\n").split("\n"))
        assert found.given == len(found.train) + len(found.held) + sum(found.skipped.values())
        assert found.characters == len(text.replace("\n", ""))
        assert (found.bytes, found.sha256) == (len(text.encode()), hashlib.sha256(text.encode()).hexdigest())


def test_no_held_out_sentence_is_trained_on_although_the_file_repeats_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"  common sentence {number}\r\n" for number in rng.zipf(1.3, 3000))
    found = read(write(tmp_path, text), train=10**6, held=2000)
    assert len(found.held) == len(set(found.held)) > 50
    assert not set(found.held) & set(found.train)
    assert len(found.train) > 300 and found.skipped[ALSO_HELD] > 300
    repeated = Counter(found.train).most_common(1)
    assert not repeated or repeated[0][1] > 1, "training keeps what is repeated as often as it is"


@pytest.mark.parametrize(("train", "held"), [(10, 100), (200, 1700), (1700, 4000), (10**9, 10**9)])
def test_caps_are_kept(tmp_path: Path, train: int, held: int) -> None:
    write(tmp_path, numbered(1000))
    if train == 10:
        assert "longer than 10 bytes" in refuse(tmp_path, train=train)
        return
    found = read(tmp_path, train=train, held=held)
    size = len(b"sentence 000000\n")
    assert len(found.held) == min(200, -(-held // size))
    assert len(found.train) == min(1000 - len(found.held), train // size)
    assert not set(found.held) & set(found.train)


def test_every_line_is_as_likely_in_either_sample(tmp_path: Path) -> None:
    write(tmp_path, numbered(100))
    held, train = np.zeros(100), np.zeros(100)
    for seed in range(300):
        found = read(tmp_path, seed=seed, train=16 * 20, held=16 * 5)
        assert (len(found.held), len(found.train)) == (5, 20)
        for counts, sentences in ((held, found.held), (train, found.train)):
            counts[[int(sentence[-6:]) for sentence in sentences]] += 1
    for counts, drawn in ((held, 5), (train, 20)):
        # Draws of one file without replacement vary less than independent ones, by the share that is not drawn.
        statistic = ((counts - 3 * drawn) ** 2).sum() / (3 * drawn) / (1 - drawn / 100)
        assert chi2.ppf(0.001, 99) < statistic < chi2.ppf(0.999, 99)
    both = np.corrcoef(np.arange(100), held)[0, 1]
    assert abs(both) < 0.35


def test_seeds_and_lines_alone_decide(tmp_path: Path) -> None:
    write(tmp_path, numbered(500))
    write(tmp_path, numbered(500, start=1000), "fr.txt")
    one, again, other = read(tmp_path), read(tmp_path), read(tmp_path, seed=1)
    assert (one.held, one.train) == (again.held, again.train)
    assert set(one.held) != set(other.held) and set(one.train) != set(other.train)
    assert one.held != tuple(sorted(one.held))
    parallel = read(tmp_path, "fr")
    assert [int(line[-6:]) + 1000 for line in one.held] == [int(line[-6:]) for line in parallel.held]
    assert read(tmp_path, seed=-1).held != read(tmp_path, seed=2**80).held


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for lines in (40_000, 160_000):
        write(tmp_path, "".join(f"{number:0150}\n" for number in range(lines)))
        tracemalloc.start()
        read(tmp_path, train=10_000, held=1000, block=2**18)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] and peaks[1] < 8e6


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    write(tmp_path, numbered(30).encode() + b"x" * 2**24)
    tracemalloc.start()
    told = refuse(tmp_path, block=2**18)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "longer than 1,048,576 bytes. | DIR/en.txt:31" in told and peak < 6e6


def test_marks_and_ends_of_lines_change_nothing_but_are_told(tmp_path: Path) -> None:
    write(tmp_path, numbered(50))
    write(tmp_path, "\ufeff" + numbered(50).replace("\n", "\r\n"), "win.txt")
    plain, marked = read(tmp_path), read(tmp_path, "win")
    assert (plain.held, plain.train, plain.characters) == (marked.held, marked.train, marked.characters)
    assert plain.notes == () and marked.bytes == plain.bytes + 53
    assert "byte order mark" in marked.notes[0] and "50 of 50 lines end in CR LF" in marked.notes[1]


@pytest.mark.parametrize(("loose", "told"), [(1, False), (3, True)])
def test_text_that_is_not_composed_is_told(tmp_path: Path, loose: int, told: bool) -> None:
    text = numbered(200 - loose) + "".join(f"cafe\u0301 {number}\n" for number in range(loose))
    found = read(write(tmp_path, text), train=10**6)
    assert any(f"{loose} of 200" in note for note in found.notes) == told
    assert "cafe\u0301 0".encode() in found.train + found.held


LATIN = "".join(f"Ils ont déjà été reçus à la forêt numéro {number}\n" for number in range(40))
RUSSIAN = "".join(f"Это обычное предложение номер {number}\n" for number in range(40))
FILES = [
    (b"", "The file is empty. | DIR/en.txt"),
    (b"\n \n\r\n", "no sentences in 3 lines"),
    (b"just one", "only one sentence in 1 line. | DIR/en.txt | Write one sentence a line, 20 or more."),
    (numbered(19).encode(), "19 sentences in 19 lines"),
    (numbered(400).replace("\n", "\r").encode(), "CR alone"),
    (b"same sentence\n" * 500, "No sentence is left for training: 499 are equal to one of the 1 held out"),
    (numbered(30).encode("utf-16"), "in UTF-16. | DIR/en.txt:1 | Save it as UTF-8."),
    (numbered(30).encode("utf-32"), "in UTF-32. | DIR/en.txt:1"),
    (numbered(30).encode("utf-16-le"), "in UTF-16. | DIR/en.txt:1"),
    (numbered(30).encode() + LATIN.encode("latin-1"), "0xe9 is not UTF-8 text: it looks like Latin-1"),
    (numbered(30).encode() + LATIN.encode("latin-1"), "DIR/en.txt:31 "),
    (RUSSIAN.encode("cp1251"), "older encoding of its script, such as Windows-1251"),
    (RUSSIAN.encode().replace(b"19", b"1\xd0"), "may be damaged there. | DIR/en.txt:20 "),
    (numbered(30).encode() + b"half a letter \xc3", "0xc3 is not UTF-8 text"),
    (numbered(30).encode() + b"lone \xed\xa0\x80", "DIR/en.txt:31"),
    (numbered(30).encode() + b"nul \0 inside\n", "DIR/en.txt:31"),
    (gzip.compress(numbered(30).encode()), "This is a gzip file, not text."),
    (b"\x89PNG\r\n\x1a\n" + zlib.compress(b"x" * 999), "This is a PNG image, not text."),
    (b"PK\x03\x04 en.txt", "This is a ZIP archive, not text."),
    (b"<!DOCTYPE html>" + numbered(30).encode(), "This is a web page, not text."),
    (
        numbered(30).encode() + b"x" * 2**21 + b"\n" + numbered(30).encode(),
        "longer than 1,048,576 bytes. | DIR/en.txt:31",
    ),
    (numbered(30).encode() + b"x" * (2**20 + 1), "longer than 1,048,576 bytes. | DIR/en.txt:31"),
    (b"a\r" * 2**20, "CR alone"),
]


@pytest.mark.parametrize("block", [2**18, 2**22])
@pytest.mark.parametrize(("content", "told"), FILES)
def test_a_file_that_is_no_text_of_sentences_is_refused(tmp_path: Path, block: int, content: bytes, told: str) -> None:
    assert told in refuse(write(tmp_path, content), train=10**6, block=block)


def test_the_longest_line_and_the_fewest_sentences_are_taken(tmp_path: Path) -> None:
    write(tmp_path, numbered(19) + "x" * 2**20)
    found = read(tmp_path, train=2**22, held=1)
    assert (len(found.held), len(found.train)) == (1, 19)


def test_what_is_no_ordinary_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    write(tmp_path, numbered(40), "english.txt")
    assert f"There is no such file. | DIR/englis.txt | Did you mean {'english.txt'}?" in refuse(tmp_path, "englis")
    (tmp_path / "dir.txt").mkdir()
    assert "This is a folder, not a file." in refuse(tmp_path, "dir")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    assert "This is not an ordinary file." in refuse(tmp_path, "pipe")
    assert "The link leads out of its folder, to /dev/zero." in refuse(tmp_path, "zero")
    (tmp_path / "broken.txt").symlink_to("nowhere")
    assert "it is a link to nothing." in refuse(tmp_path, "broken")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    assert "it is a link to nothing." in refuse(tmp_path, "loop")
    (tmp_path / "good.txt").symlink_to(tmp_path / "english.txt")
    assert read(tmp_path, "good").given == 40
    assert "There is no such folder." in refuse(tmp_path / "none")
    assert "This is no folder." in refuse(tmp_path / "english.txt")


@pytest.mark.parametrize(
    "code", ["", ".", "..", "../x", "a/b", "a\\b", "a+b", "zh-TW", "a b", "a,b", " en", "en\n", "a\0", ".en", "x" * 65]
)
def test_a_code_that_cannot_name_a_file_is_refused(tmp_path: Path, code: str) -> None:
    write(tmp_path.parent, numbered(40), "x.txt")
    assert "cannot be the code of a language" in refuse(tmp_path, code)


def test_codes_name_different_files(tmp_path: Path) -> None:
    for code in ("en", "EN", "zh_TW", "sr.Latn", "日本"):
        write(tmp_path, numbered(40), f"{code}.txt")
    assert check_codes(tmp_path, ["zh_TW", "en", "日本", "sr.Latn"]) == ("en", "sr.Latn", "zh_TW", "日本")
    for codes, told in [
        (["en", "en"], "given twice"),
        (["en", "zh_TW", "EN"], "only by case"),
        (["xx"], "no such file"),
    ]:
        with pytest.raises(InputError) as caught:
            check_codes(tmp_path, codes)
        assert told in caught.value.message


@pytest.mark.parametrize(("train", "held"), [(0, 10), (10, 0), (-1, 10)])
def test_nothing_cannot_be_asked_for(tmp_path: Path, train: int, held: int) -> None:
    with pytest.raises(InputError, match="hold no sentence"):
        read(write(tmp_path, numbered(40)), train=train, held=held)


def test_languages_that_share_text_are_found(tmp_path: Path) -> None:
    write(tmp_path, numbered(400))
    write(tmp_path, numbered(400), "copy.txt")
    write(tmp_path, numbered(400, start=1000), "fr.txt")
    write(tmp_path, numbered(400, start=1000) + "one more\n", "mixed.txt")
    texts = [read(tmp_path, code, train=10**6, held=800) for code in ("fr", "en", "copy", "mixed")]
    assert shared_content(texts) == (("copy", "en"),)
    shared = shared_sentences(texts)
    assert set(shared) <= {("fr", "mixed"), ("mixed", "fr")}
    write(tmp_path, numbered(500), "more.txt")
    texts = [texts[1], read(tmp_path, "more", seed=1, train=10**6, held=800)]
    shared = shared_sentences(texts)
    held, train = set(texts[0].held), set(texts[1].train)
    assert shared["en", "more"] == len(held & train) > 10


def attributes(folder: Path, content: str, codes: tuple[str, ...] = ("en", "ar")) -> Attributes:
    return read_attributes(write(folder, content, "langs.csv"), codes)


def test_attributes_are_those_of_the_languages_asked_for(tmp_path: Path) -> None:
    none = read_attributes(tmp_path, ["en"])
    assert (none.path, none.columns, none.missing) == (None, {}, ("en",))
    found = attributes(tmp_path, '\ufeffscript,code,family,lines\n Latn ,en,"Indo, European",5\nGrek,el,,7\n,ar, ,6\n')
    assert found.columns == {
        "script": {"en": "Latn"},
        "family": {"en": "Indo, European"},
        "lines": {"en": "5", "ar": "6"},
    }
    assert found.missing == () and found.path == tmp_path / "langs.csv"
    assert attributes(tmp_path, "code\nEN\n").missing == ("en", "ar")


def test_attributes_between_semicolons_that_are_numbers_get_points(tmp_path: Path) -> None:
    found = attributes(tmp_path, "code;size;name\nen;1,5;1,2\nel;;x\nar; 2;7\n")
    assert found.columns["size"] == {"en": "1.5", "ar": "2"} and found.columns["name"]["en"] == "1,2"
    with pytest.raises(InputError, match="three digits behind it"):
        attributes(tmp_path, "code;size\nen;1,500\nar;2,250\n")


@pytest.mark.parametrize(
    ("content", "told", "line"),
    [
        ("lang,script\nen,Latn\n", "no column 'code'", ""),
        ("code,script\nen,Latn\nar,Arab\nen,Cyrl\n", "'en' has a row already, on line 2", ":4"),
        ("code,script,script\nen,a,b\n", "stands twice", ":1"),
        ("code,script\nen,Latn\n,Arab\n", "The code is empty", ":3"),
        ("code,script\nen,Latn,x\n", "3 fields", ":2"),
        ("code,script\n", "no rows", ""),
        ("", "empty", ""),
    ],
)
def test_a_table_that_says_two_things_is_refused(tmp_path: Path, content: str, told: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        attributes(tmp_path, content)
    assert told in caught.value.message and caught.value.where.endswith(f"langs.csv{line}") and caught.value.hint


def test_a_table_that_is_no_ordinary_file_or_too_large_is_refused(tmp_path: Path) -> None:
    attributes(tmp_path, "code,script\nen,Latn\nar,Arab\n")
    os.truncate(tmp_path / "langs.csv", 2**24 + 1)
    with pytest.raises(InputError, match="larger than 16,777,216"):
        read_attributes(tmp_path, ["en"])
    (tmp_path / "langs.csv").unlink()
    (tmp_path / "langs.csv").symlink_to("nowhere")
    with pytest.raises(InputError, match="link to nothing"):
        read_attributes(tmp_path, ["en"])
    (tmp_path / "langs.csv").unlink()
    os.mkfifo(tmp_path / "langs.csv")
    with pytest.raises(InputError, match="ordinary file"):
        read_attributes(tmp_path, ["en"])


def test_no_link_leads_out_of_the_folder_of_languages(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    write(tmp_path, numbered(40), "outside.txt")
    (folder / "en.txt").symlink_to(tmp_path / "outside.txt")
    assert f"leads out of its folder, to {tmp_path.resolve() / 'outside.txt'}." in refuse(folder, "en").replace(
        "DIR", str(folder)
    )
    (tmp_path / "attributes.csv").write_text("code,script\nen,Latn\n")
    (folder / "langs.csv").symlink_to(tmp_path / "attributes.csv")
    with pytest.raises(InputError, match="leads out of its folder"):
        read_attributes(folder, ["en"])
