"""Vectors in place of a model: which clip has which, and what is wrong where a clip has none."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from audits.asr_fairness import Options
from audits.core.records import Source, Warning
from audits.core.wording import many
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.names import suggest
from probes.files.several_refusals import counted
from probes.speech.layer_vectors import LayerVectors
from probes.speech.manifests import Clip, Manifest

NO_VECTORS, BAD_VECTORS = "no vectors", "unusable vectors"
_SKIP = "Leave them out of the file, or give --on-bad-clip skip, which then leaves out whatever does not fit."


def key_of(clip: Clip, options: Options) -> str:
    """Return the key of a clip's vectors: its path as the manifest writes it, or what `--id-col` holds."""
    return clip.name if options.id_col is None else clip.extras.get(options.id_col, "").strip()


class ClipVectors:
    """The vectors of the clips of a manifest.

    Parameters
    ----------
    vectors, manifest
        What was given. Nothing is matched by order.

    Raises
    ------
    InputError
        Where no key is that of a clip, a key is that of several, or some are of none and nothing may be left out.
    """

    def __init__(self, vectors: LayerVectors, manifest: Manifest, options: Options) -> None:
        self.vectors, self._options = vectors, options
        self._reasons: dict[int, str] = {}
        keys = _distinct(manifest, options)
        known = [key for key in vectors.entries if key in keys]
        if not known:
            raise _strangers(vectors, sorted(keys), options)
        self.extra = [key for key in vectors.entries if key not in keys]
        if self.extra and options.on_bad_clip != "skip":
            raise InputError(
                f"{len(self.extra):,} of {len(vectors.entries):,} keys are of no clip of {manifest.path}: "
                f"{', '.join(counted((repr(key) for key in sorted(self.extra)[:10]), len(self.extra)))}",
                where=str(vectors.path),
                hint=_SKIP,
            )

    def digest(self, clip: Clip, samples: int) -> str:
        """Return the hash of a clip's vectors, all of which are read and checked; empty where there is no frame.

        Raises
        ------
        InputError
            Where it has none, or they cannot be used; `where` is the line of the manifest.
        """
        key, vectors = key_of(clip, self._options), self.vectors
        if key not in vectors.entries:
            self._reasons[id(clip)] = NO_VECTORS
            what = "path" if self._options.id_col is None else self._options.id_col
            raise InputError(f"There are no vectors under its {what} {key!r}.", where=clip.where, hint=self._like(key))
        if not vectors.frames(key):
            return ""
        self._reasons[id(clip)] = BAD_VECTORS
        vectors.check_length(key, samples, clip.where)
        found = vectors.digest(key)
        del self._reasons[id(clip)]
        return found

    def _like(self, key: str) -> str:
        """Return a hint on keys that are like one that is missing: of the same name in another folder, or any."""
        near = self._named.get(key.rpartition("/")[2], [])
        return suggest(key, near[:3] or self._first)

    @cached_property
    def _first(self) -> list[str]:
        return sorted(self.vectors.entries)[:3]

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        """Keys by the name of the file; made once, since a corpus may lack the vectors of very many clips."""
        found: dict[str, list[str]] = {}
        for key in self.vectors.entries:
            found.setdefault(key.rpartition("/")[2], []).append(key)
        return found

    def reason(self, clip: Clip) -> str:
        """Return in a few words why a clip was refused for its vectors; empty where it was not."""
        return self._reasons.get(id(clip), "")


def _distinct(manifest: Manifest, options: Options) -> set[str]:
    if options.id_col is not None and options.id_col not in manifest.columns:
        hint = suggest(options.id_col, manifest.columns)
        raise InputError(f"There is no column {options.id_col!r}.", where=f"{manifest.path}, --id-col", hint=hint)
    if options.id_col is not None and not any(options.id_col in clip.extras for clip in manifest.clips):
        raise InputError(
            f"The column {options.id_col!r} is empty, or is used as something else.",
            where=f"{manifest.path}, --id-col",
            hint="Name a column of keys alone; without --id-col the path is the key.",
        )
    found: dict[str, Clip] = {}
    for clip in manifest.clips:
        key = key_of(clip, options)
        if key in found:
            raise InputError(
                f"The key {key!r} of its vectors is also that of line {found[key].line}.",
                where=clip.where,
                hint="Name with --id-col a column in which every clip has a value of its own.",
            )
        found[key] = clip
    return set(found)


def _strangers(vectors: LayerVectors, keys: Sequence[str], options: Options) -> InputError:
    wanted = "--path-col names" if options.id_col is None else f"{options.id_col} holds"
    return InputError(
        f"No key in it is of a clip: the first is {sorted(vectors.entries)[0]!r}, the manifest's first is {keys[0]!r}.",
        where=str(vectors.path),
        hint=f"Write each clip's vectors under what {wanted}, letter by letter. If these are weights of a model, give "
        "its folder, with config.json.",
    )


def vectors_source(vectors: LayerVectors, digests: Iterable[tuple[str, str]]) -> Source:
    """Return the vectors as a source: the hash is that of keys and values, in whatever files they stand."""
    held = sorted(digests)
    content = sha256_json([held, vectors.hop])
    return Source(role="vectors", path=str(vectors.path), sha256=content, items=len(held))


def check_tasks(vectors: LayerVectors, options: Options) -> None:
    """Refuse to transcribe from one vector a clip.

    Raises
    ------
    InputError
        Where the task asr is asked for and there are no frames.
    """
    if "asr" in options.tasks and not vectors.framed:
        raise InputError(
            "There is one vector a clip and layer, and the task asr needs the frames.",
            where=str(vectors.path),
            hint="Save arrays of shape (layers, frames, width), or give --tasks sid.",
        )


def warnings_of(options: Options, extra: int) -> tuple[Warning, ...]:
    """Return what the report says of a run without the model itself."""
    twin = " and the control random-init" if options.controls else ""
    found = [
        Warning(
            id="vectors",
            message="MODEL is a file of vectors: what needs the model itself, its own CTC head"
            f"{twin}, is left out, and --batch, --device and --dtype say nothing of how the vectors were made.",
        )
    ]
    if extra:
        which = many(extra, "key of the vectors is", "keys of the vectors are")
        found.append(Warning(id="vectors-of-no-clip", message=f"{which} of no clip of the manifest, and left out."))
    return tuple(found)
