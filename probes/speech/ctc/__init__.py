"""Linear CTC probes on frozen frames, one for each layer and fold, all fitted at once."""

from probes.speech.ctc.alphabet import BLANK, Alphabet
from probes.speech.ctc.fitting import CtcProbes, fit_ctc
from probes.speech.ctc.utterances import Source, Utterances

__all__ = ["BLANK", "Alphabet", "CtcProbes", "Source", "Utterances", "fit_ctc"]
