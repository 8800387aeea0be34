"""Sets of vectors, whatever they stand for: reading them, nearest neighbours and support metrics."""
