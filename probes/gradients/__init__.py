"""Training signals that stand in for the gradient: how they are computed, how near they are, and what they cost."""
