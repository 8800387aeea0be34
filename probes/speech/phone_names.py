"""From labels of an alignment to phones: pauses, stress digits, and the user's own map."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from probes.core.errors import InputError
from probes.files.levels import clean
from probes.files.tables import read_table
from probes.speech.phones import PhoneInterval

_WORDS = "breath breathing click cough inhale laugh laughter music noise pause silence silent unk"
_ANGLED = "sil sp spn nsn eps p p: usb nib oov br ap cutoff s /s"
_BARE = "sil silb sile sp spn nsn pau epi h# # _ _: + * < > br ns lg cg ls vocnoise iver unknown oov"
PAUSES = frozenset(
    {
        *("", *_BARE.split(), *_WORDS.split(), "{sl}"),
        *(left + word + right for word in _WORDS.split() for left, right in ("<>", "[]", "{}", "()")),
        *(f"<{code}>" for code in _ANGLED.split()),
        *(f"{{{code}}}" for code in _BARE.split()),
    }
)
"""Labels that are no phone, in lower case; labels are compared in any case.

Empty intervals are those of Praat and MFA, `sil sp spn` those of MFA and HTK (which also writes `silB silE`), `nsn`
and `<eps>` those of Kaldi, `h# pau epi` those of TIMIT, `<p:> <usb> <nib> # < >` those of WebMAUS, `# + *` those of
SPPAS, `br ns lg cg ls` and `{SL}` those of the Penn aligner, `VOCNOISE IVER` those of Buckeye, `silent` that of
Praat's search for silences; words for noises stand bare or in brackets. Short codes in square brackets are none of
them: some write phones like that (`[p]`). TIMIT's closures (`bcl`) and its glottal stop `q` are phones.
"""
_STRESSED = re.compile(r"(AA|AE|AH|AO|AW|AX|AY|EH|ER|EY|IH|IX|IY|OW|OY|UH|UW|UX)[012]")


class PhoneNames:
    """Rules from labels to phones; the user's map goes first, for the label itself or its form without stress."""

    def __init__(self, mapping: Mapping[str, str], *, keep_stress: bool) -> None:
        self.unused = set(mapping)
        self._mapping = mapping
        self._keep_stress = keep_stress
        self._known: dict[str, tuple[str, str]] = {}

    def of(self, label: str) -> tuple[str, str]:
        """Return the phone of a label ("" for a pause) and the change: `mapped`, `stress` (digit dropped) or ""."""
        if label not in self._known:
            text = clean(label)
            plain = text if self._keep_stress or not _STRESSED.fullmatch(text) else text[:2]
            name = next((one for one in (text, plain) if one in self._mapping), None)
            phone = plain if name is None else self._mapping[name]
            change = "mapped" if name is not None else "stress" if plain != text else ""
            self.unused -= {name}
            self._known[label] = ("" if phone.casefold() in PAUSES else phone, change)
        return self._known[label]

    def mapped(self, label: str) -> str:
        """Return the user's name of a label, or the label itself where the map has none."""
        self.unused -= {label}
        return self._mapping.get(label, label)

    def rename(self, phones: Iterable[PhoneInterval]) -> tuple[PhoneInterval, ...]:
        """Rename phones and drop pauses.

        >>> PhoneNames({"DX": "T"}, keep_stress=False).rename([PhoneInterval("AH0", 0.0, 0.1)])
        (PhoneInterval(phone='AH', start=0.0, end=0.1),)
        """
        named = (replace(one, phone=self.of(one.phone)[0]) for one in phones)
        return tuple(one for one in named if one.phone)


def phone_names(phone_map: Path | None, *, keep_stress: bool = False) -> PhoneNames:
    """Make the rules of phone names, with the user's map if there is one (see `read_alignments`)."""
    return PhoneNames(_read_map(phone_map) if phone_map else {}, keep_stress=keep_stress)


def _read_map(path: Path) -> dict[str, str]:
    table = read_table(path)
    table.check_flat(("from", "to"))
    missing = next((name for name in ("from", "to") if name not in table.columns), None)
    if missing:
        hint = f"Its columns are from and to. {table.suggest(missing)}"
        raise InputError(f"The phone map has no column {missing!r}.", where=str(path), hint=hint)
    found: dict[str, str] = {}
    for row in table.rows:
        old, new = (clean(row.values.get(name)) for name in ("from", "to"))
        if found.setdefault(old, new) != new:
            message = f"The phone {old!r} becomes both {found[old]!r} and {new!r}."
            raise InputError(message, where=f"{path}:{row.line}", hint="Keep one of the two rows.")
    return found
