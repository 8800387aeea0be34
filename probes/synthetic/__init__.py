"""Data whose truth is known because we made it: what the demos run on and the tests measure against."""
