"""What every probe uses: errors, hashes, the cache, progress, workers and random streams."""
