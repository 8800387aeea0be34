"""Fourier neural operators: one network for all families of checkpoints, and the readers that fill it."""
