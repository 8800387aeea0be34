"""Readers of strangers' files, one for each kind of file."""
