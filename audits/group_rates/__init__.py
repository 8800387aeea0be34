"""Shared parts of audits of error rates by group: rates, gaps, chance, null findings, warnings, clips of two runs.

A comparison holds sums per speaker, group and column, where a column is what one audit looks at side by side: the
systems that transcribed the clips, or the layers of an encoder. An audit adds what is its own and the names of its
estimates.
"""

MIN_REPORTED = 5
"""Speakers below which a rate is marked as based on too few."""
METRIC_WORDS = {"error": "error rate", "wer": "word error rate", "cer": "character error rate"}
PERMUTED = "permutation of labels over speakers"
