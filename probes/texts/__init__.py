"""Texts: reading, words, embeddings and generation."""
