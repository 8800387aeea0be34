"""Fourier neural operators: one network for all families of checkpoints, and a reader for each family."""
