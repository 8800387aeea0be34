"""What every probe stands on: errors, hashes, the cache, progress, workers and random streams."""
