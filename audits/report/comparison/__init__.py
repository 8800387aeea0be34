"""Comparison of two runs: their common estimates, paired by record where both judged the same records."""
