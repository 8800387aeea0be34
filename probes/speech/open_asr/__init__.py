"""English text as the Open ASR Leaderboard compares it: spellings, names, numbers, times, fillers and contractions.

The rules are those of huggingface/open_asr_leaderboard (folder normalizer) in the autumn of 2026: Whisper's English
normaliser with a longer table of spellings, and with names, clock times, acronyms and more fillers. The texts that come
out are theirs, also where a rule is odd, so that an error rate here is the one there.
"""

from probes.speech.open_asr.english import normalise_open_asr

__all__ = ["normalise_open_asr"]
