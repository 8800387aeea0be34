"""Does a reader of data meet any bytes with a value or an error that names them, and never with anything else?"""

import csv
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pytest
from eval_logs import INSPECT, inspect_json, lm_eval_line, sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from audits.asr_fairness import Options as Fairness
from audits.certification import Options as Certification
from audits.certification.logs import read_log
from audits.certification.stored_counts import read_counts
from audits.core import gates
from audits.core.records import Report, Warning
from audits.interference.language_tables import read_downstream, read_similarity
from audits.interference.loss_tables import read_losses
from audits.membership import Options as Membership
from audits.membership.membership_scores import read_scores
from audits.membership.sealed_lists import read_sealed_list
from audits.phoneme_errors.tokens import read_tokens
from audits.report import records_file, report_file
from audits.report.registration_file import Registered, read_registration
from audits.speaker_groups.predictions import read_predictions
from miles_cli.options import read_config
from probes.classifiers.class_maps import read_class_map
from probes.classifiers.images import load_images
from probes.conditional.law_files import read_candidate, read_truth
from probes.core.errors import InputError, MilesError
from probes.eval_logs.inspect_logs import read_log as read_inspect
from probes.eval_logs.lm_eval_logs import read_log as read_samples
from probes.eval_logs.lm_eval_logs import read_results
from probes.files.levels import read_value_map
from probes.generators.point_sets import read_points
from probes.language_models.language_corpora import read_attributes, read_language
from probes.language_models.text_tokenizers import read_tokenizer
from probes.operators.fields import load_fields
from probes.speech.alignment_files import read_ctm, read_intervals, read_phn, read_tables
from probes.speech.layer_vectors import open_vectors
from probes.speech.manifests import ColumnMap, read_manifest
from probes.speech.phone_names import phone_names
from probes.speech.text_rules import read_rules
from probes.speech.textgrids import read_textgrid
from probes.texts.text_files import read_texts

few = settings(max_examples=70, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
_MANIFEST = "path,speaker,text,gender,age\na.wav,s1,up we go,f,30\nb.wav,s2,no,m,41\nc.wav,s2,,m,\n"
_ROWS = '{"path": "a.wav", "text": "up", "gender": "f", "offset": 1}\n{"path": "b.wav", "text": "no", "gender": null}\n'
_CHAT = '{"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "up we go"}]}\n'
_GRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 1
tiers? <exists>
size = 1
item []:
    item [1]:
        class = "IntervalTier"
        name = "phones"
        xmin = 0
        xmax = 1
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 0.5
            text = "AH0"
        intervals [2]:
            xmin = 0.5
            xmax = 1
            text = "sil"
"""
_SUITE = '[[model]]\nname = "a"\nsamples = "missing.npy"\nepsilon = 8\n'
_CONFIG = 'seed = 3\n[audit-fairness]\nby = ["gender"]\nlevel = 0.9\nlayers = "all"\n'
_CRITERIA = Registered(
    audit="lipschitz", criteria=("findings > 0",), data=(), subject=None, settings={"arch": "small_cnn"}, seed=0,
    level=0.95, miles="0.1.0", created="2026-11-28T03:00:00Z",
)  # fmt: skip
_LOSSES = "lang,with,seed,sentence,loss,bytes\n" + "".join(
    f"{one},{other},{seed},{place},1.{place},60\n"
    for one in ("en", "fr") for other in ("en", "fr") for seed in (0, 1) for place in (0, 1)
)  # fmt: skip
_SCORES = "id,member,score\np0,1,0.5\np1,0,0.25\np2,1,-3e2\n"
_TOKENS = "phone,speaker,dialect,x0,x1\naa,s1,north,0.5,1\niy,s2,south,-2,3e-4\naa,s2,south,1,1\n"
_LOG = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n1\t2\t-1\t0.0\t0\t0:00:02\n"


def _npz(path: Path, **arrays: Any) -> bytes:
    np.savez(path, **arrays)
    return path.read_bytes()


def _arrays(folder: Path) -> dict[str, bytes]:
    """Return NPZ and NPY files that the readers below take."""
    ones, flags = np.ones((4, 1, 4, 4), np.float32), np.arange(4) % 2 == 0
    place = folder / "made.npz"
    np.save(folder / "made.npy", ones)
    tokens = {"phone": np.array(["a", "b", "a", "b"]), "speaker": np.array(["s", "s", "t", "t"])}
    return {
        "scores.npz": _npz(place, scores=np.linspace(0, 1, 4), member=flags),
        "points.npz": _npz(place, x=ones),
        "points.npy": (folder / "made.npy").read_bytes(),
        "images.npz": _npz(place, x=ones, y=np.arange(4)),
        "fields.npz": _npz(place, x=ones[:, 0], y=ones[:, 0]),
        "tokens.npz": _npz(place, features=np.ones((4, 3), np.float32), dialect=np.array(list("nsns")), **tokens),
        "texts.npy": (folder / "made.npy").read_bytes(),
        "inspect.eval": (INSPECT / "old.eval").read_bytes(),
        "layers.npz": _npz(place, **{"a.wav": ones[0]}, hop=np.array(320)),
        "layers.safetensors": save({"a.wav": ones[0]}, metadata={"hop": "320"}),
        "laws.npz": _npz(place, y=np.arange(4.0), x=ones[:, 0, 0], samples=ones[:, 0, 0]),
    }


def _tokenizer() -> bytes:
    from tokenizers import Tokenizer, models, pre_tokenizers

    rules = Tokenizer(models.WordLevel({"[UNK]": 0, "[MASK]": 1, "[SEP]": 2, "up": 3}, unk_token="[UNK]"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    return str(rules.to_str()).encode()


def _manifest(path: Path) -> object:
    columns = ColumnMap()
    return read_manifest(path, columns=columns, by=("gender",), values=None, bins={}, needs=frozenset({"text"}))


def _laws(path: Path) -> object:
    of = read_truth(path, target=() if path.suffix == ".npz" else ("y",))
    return read_candidate("model", path, of).block(0, len(of.y))


def _layers(path: Path) -> object:
    found = open_vectors(str(path))
    return [found.digest(key) for key in found.entries]


def _similarity(path: Path) -> object:
    return read_similarity(path, ("en", "fr", "de"))


def _suite(path: Path) -> object:
    from audits.membership.releases import releases_of

    return releases_of(Membership(suite=path), (1, 4, 4))


READERS: dict[str, tuple[str | bytes, Callable[[Path], object]]] = {
    "canaries.csv": ("id,text,included,nonce\nc1,zisele sotano,1,ab\nc2,betuti tuvovu,0,cd\n", read_sealed_list),
    "manifest.csv": (_MANIFEST, _manifest),
    "manifest.tsv": (_MANIFEST.replace(",", "\t"), _manifest),
    "manifest.jsonl": (_ROWS, _manifest),
    "manifest.json": ("[" + _ROWS.strip().replace("\n", ",") + "]", _manifest),
    "predictions.tsv": ("path\tprediction\na.wav\tup\nb.wav\tno\n", read_predictions),
    "predictions.jsonl": (_ROWS, read_predictions),
    "predictions.json": ('{"a.wav": "up", "b.wav": null}', read_predictions),
    "predictions.trn": ("up we go (a-1)\nno (b-1)\n", read_predictions),
    "predictions.txt": ("a up we go\nb no\n", read_predictions),
    "scores.csv": (_SCORES, lambda path: read_scores(path, higher_is="member", target=None)),
    "log.tsv": (_LOG, read_log),
    "predicted.tsv": ("idx\tlabel\tpredict\tcorrect\ttime\n0\t3\t3\t1\t1.5\n", read_log),
    "synsets.txt": ("n01440764 tench, Tinca tinca\nn01443537 goldfish\n", read_class_map),
    "index.json": ('{"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}', read_class_map),
    "map.csv": ("folder,index\na,1\nb,2\n", read_class_map),
    "tokens.csv": (_TOKENS, lambda path: read_tokens(path, by=("dialect",))),
    "tokens.jsonl": ('{"phone": "a", "speaker": "s", "x0": 1}\n', lambda path: read_tokens(path, by=())),
    "points.csv": ("0.5,1\n2,3e4\n", lambda path: read_points(path, role="--members")),
    "images.csv": ("1,0,255,3,4\n0,1,2,3,4\n", lambda path: load_images(path)),
    "a.TextGrid": (_GRID, read_textgrid),
    "b.TextGrid": (_GRID, lambda path: read_intervals(path, None, 16000)),
    "a.ctm": ("a 1 0.0 0.5 AH\na 1 0.5 0.25 B 0.9\n;; end\n", lambda path: read_ctm(path, None)),
    "a.phn": ("0 8000 h#\n8000 16000 ah\n", lambda path: read_phn(path, None, 16000)),
    "a.csv": ("start,end,phone\n0,0.5,a\n0.5,1,b\n", lambda path: read_intervals(path, None, 16000)),
    "all.csv": ("clip,start,end,phone\nx,0,0.5,a\n", lambda path: read_tables(path, None)),
    "phones.csv": ("from,to\nax,ah\nsil,\n", phone_names),
    "rules.csv": ("pattern,replacement\n(\\d)%,\\1 percent\num|uh,\n", lambda path: read_rules(path).apply(["5% um"])),
    "values.csv": ("column,from,to\ngender,f,female\n", read_value_map),
    "values.toml": ('[gender]\nf = "female"\n', read_value_map),
    "langs.csv": ("code,speakers\nen,1500\nfr,310\n", lambda path: read_attributes(path.parent, ("en",))),
    "losses.csv": (_LOSSES, read_losses),
    "distances.csv": ("a,b,syntax\nen,fr,0.5\nen,de,0.1\nfr,de,0.2\n", _similarity),
    "tagging.csv": ("code,tagging\nen,0.7\nfr,0.5\n", lambda path: read_downstream(path, ("en", "fr"))),
    "en.txt": (
        "".join(f"we do so {place}\n" for place in range(400)),
        lambda path: read_language(path.parent, "en", seed=0, train_bytes=3000, held_bytes=300),
    ),
    "texts.jsonl": ('{"text": "we do"}\n{"text": "up", "embedding": [1, 2]}\n', read_texts),
    "texts.txt": ("we do\nup\n", read_texts),
    "texts.csv": ("text\nwe do\n", read_texts),
    "manifest.csv.gz": (gzip.compress(_MANIFEST.encode(), mtime=0), _manifest),
    "texts.jsonl.gz": (gzip.compress(b'{"text": "we do"}\n{"text": "up"}\n', mtime=0), read_texts),
    "chat.jsonl": (_CHAT, lambda path: read_texts(path, column="messages.-1.content")),
    "suite.toml": (_SUITE, _suite),
    "config.toml": (_CONFIG, lambda path: read_config(path, "audit-fairness", Fairness)),
    "tokenizer.json": (b"", read_tokenizer),
    "report.json": ("{}", report_file.read_report),
    "criteria.json": (_CRITERIA.dumps(), read_registration),
    "scores.npz": (b"", lambda path: read_scores(path, higher_is="member", target=None)),
    "points.npz": (b"", lambda path: read_points(path, role="--members")),
    "points.npy": (b"", lambda path: read_points(path, role="--members")),
    "images.npz": (b"", lambda path: load_images(path)),
    "fields.npz": (b"", lambda path: load_fields(path, dimensions=2, fields=(1, 3), outputs=1).check_finite()),
    "tokens.npz": (b"", lambda path: read_tokens(path, by=("dialect",))),
    "laws.npz": (b"", _laws),
    "layers.npz": (b"", _layers),
    "layers.safetensors": (b"", _layers),
    "draws.csv": ("y,x,sample_0,sample_1\n1,2,3,4\n2,3,1,2\n", _laws),
    "quantiles.csv": ("y,q0.1,q0.9\n1,0,3\n2,1,2\n", _laws),
    "texts.npy": (b"", read_texts),
    "inspect.eval": (b"", read_inspect),
    "inspect.json": (json.dumps(inspect_json([sample(1, "C"), sample("b", {"x": 1})])), read_inspect),
    "samples_sums.jsonl": (json.dumps(lm_eval_line(1, acc=1.0)), lambda path: read_samples(path, "q")),
    "results.json": ('{"results": {"sums": {"acc,none": 1}}, "n-samples": {"sums": {"effective": 3}}}', read_results),
}  # fmt: skip
_WORDS = (
    "path", "text", "speaker", "gender", "code", "name", "lang", "with", "1", "-1", "nan", "1e999", "9" * 5000, "0x10",
    ",", "\t", "\n", "\r", '"', "'", "{", "}", "[", "[" * 3000, "]", ":", "=", "[[model]]", "\ufeff", "\u2028", "\x1b",
    "é", "../x", "/etc/passwd", "null", "true", "1979-05-27T07:32:00Z", ";;", "(a)", " ", "xmin", "1_000", "\\ud800",
)  # fmt: skip


_WHOLE = [
    start + middle
    for start in (b"", b"seed = ", b"seed: ", b'{"text": ', b"[model]\na = ", b"path\n", b"\xef\xbb\xbf", b"\xff\xfe")
    for middle in (b"9" * 5000, b"[" * 5000, b"{" * 5000, b'"' * 99, b"1e400", b"-", b"0" * 70, b"\0", b"\xed\xa0\x80")
]  # fmt: skip
"""Files of one long number, of nothing but brackets, and so on."""


def _near(sample: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes that are like a sample: mutated, or with fragments at a place of it."""

    def mutated(seed: int) -> bytes:
        return mutations.broken_bytes(sample, random.Random(seed))[1]

    def joined(parts: list[str], place: int) -> bytes:
        where = place % (len(sample) + 1)
        return sample[:where] + "".join(parts).encode() + sample[where:]

    words = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=6)
    return st.one_of(
        st.integers(0, 2**32).map(mutated),
        st.builds(joined, words, st.integers(0, 10**6)),
        words.map("".join).map(str.encode),
    )


def _met(reader: Callable[[Path], object], path: Path) -> str:
    try:
        reader(path)
    except MilesError as error:
        assert error.message and error.where
        return "refused"
    return "read"


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory, sample_report: Report) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("made")
    found = {name: text.encode() if isinstance(text, str) else text for name, (text, _) in READERS.items()}
    few_rows = replace(sample_report, estimates=sample_report.estimates[:3], findings=(), gates=(), figures=())
    return found | _arrays(folder) | {
        "tokenizer.json": _tokenizer(), "report.json": report_file.dumps(few_rows).encode()
    }  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_any_bytes_are_read_or_refused(name: str, samples: dict[str, bytes], tmp_path: Path) -> None:
    reader, path = READERS[name][1], tmp_path / name
    path.write_bytes(samples[name])
    # Near-valid says something only where the sample itself is valid; that of a suite names a file that is not there.
    assert _met(reader, path) == ("refused" if name in ("suite.toml", "texts.npy") else "read")
    for data in _WHOLE:
        path.write_bytes(data)
        _met(reader, path)

    @few
    @given(st.one_of(st.binary(max_size=120), _near(samples[name]), _near(samples[name])))
    def any_bytes(data: bytes) -> None:
        path.write_bytes(data)
        _met(reader, path)

    any_bytes()
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_any_counts_are_read_or_refused(prepared: Path, tmp_path: Path) -> None:
    data, path = (
        (prepared / "work" / "runs" / "certified" / "counts.safetensors").read_bytes(),
        tmp_path / "counts.safetensors",
    )
    path.write_bytes(data)

    def reader(place: Path) -> object:
        return read_counts(Certification(from_counts=place))

    assert _met(reader, path) == "read"

    @few
    @given(st.integers(0, 2**32))
    def any_counts(seed: int) -> None:
        rng = random.Random(seed)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        if seed % 2:
            header["__metadata__"]["miles"] = mutations.broken_json(header["__metadata__"]["miles"], rng)[1]
            text = json.dumps(header).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
        else:
            path.write_bytes(mutations.broken_bytes(data, rng)[1])
        _met(reader, path)

    any_counts()


@few
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from(("gap", "[", "]", "=", ",", ".low", ">", "0.5", " "))).map("".join),
    )
)
def test_any_text_is_a_gate_or_none(text: str) -> None:
    for read in (gates.parse, lambda one: gates.parse_selection(one, where="--only")):
        try:
            found: Any = read(text)
        except InputError as error:
            assert error.message and error.hint
        else:
            assert getattr(found, "expression", getattr(found, "text", None)) == text


_name = st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,8}", fullmatch=True)
_level = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Z"), blacklist_characters="[],="), min_size=1, max_size=8
)


@few
@given(
    _name,
    st.lists(st.tuples(_name, _level), max_size=3),
    st.sampled_from(("value", "low", "high")),
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=")),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_gate_that_is_written_is_read_again(
    name: str, keys: list[tuple[str, str]], field: str, op: str, number: float
) -> None:
    places = ",".join(f"{key}={value}" for key, value in keys)
    gate = gates.parse(f"{name}[{places}].{field} {op} {number!r}" if keys else f"{name}.{field} {op} {number!r}")
    assert (gate.name, gate.keys, gate.field, gate.op, gate.number) == (name, tuple(keys), field, op, number)
    assert gates.parse(gate.expression) == gate


_any_text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)


@settings(few, max_examples=30)
@given(_any_text.filter(str.strip), st.floats(allow_nan=False, allow_infinity=False), _any_text)
def test_a_report_that_is_written_is_read_again(
    sample_report: Report, tmp_path_factory: pytest.TempPathFactory, said: str, value: float, path: str
) -> None:
    folder = tmp_path_factory.mktemp("report")
    row = replace(sample_report.estimates[0], value=value, low=None, high=None, method="exact")
    warning = Warning(id="one", message=said, where={"group": path})
    report = replace(
        sample_report, estimates=(row,), findings=(), gates=(), figures=(), warnings=(warning,), title=said
    )
    found = report_file.read_report(report_file.write_report(report, folder))
    assert found == report and report_file.dumps(found) == report_file.dumps(report)


@few
@given(st.lists(st.tuples(_any_text, st.one_of(st.integers(), st.floats(allow_nan=False))), min_size=1, max_size=4))
def test_records_that_are_written_are_read_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float]]
) -> None:
    path = tmp_path_factory.mktemp("records") / "records.csv"
    records_file.write_records([{"text": text, "number": number} for text, number in rows], path.parent)
    with path.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    for row, (text, number) in zip(found, rows, strict=True):
        assert type(number)(row["number"]) == number
        told = text.replace("\r\n", "\n").replace("\r", "\n")
        assert row["text"] in (told, "'" + told)
        # A spreadsheet takes what begins so for a formula, unless it is a number.
        if row["text"][:1] in ("=", "+", "-", "@", "\t", "\n"):
            float(row["text"])
