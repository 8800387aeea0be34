"""Logs of other evaluation harnesses: the scores that they hold of each sample."""
