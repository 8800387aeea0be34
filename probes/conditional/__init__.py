"""Measure a conditional law against what was seen: proper scores, ranks, quantisers and distances."""
