"""Readers of untrusted files, one for each kind of file."""
