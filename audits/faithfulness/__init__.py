"""Whether texts rest on their evidence, and whether the metrics can tell."""
