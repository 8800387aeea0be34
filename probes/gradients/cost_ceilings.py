"""How much faster a step of training can become at most, by counting: without torch."""

COUNTED_CEILING = 3.0
"""1 + (b + w) / f of dense layers: what is gained at most by whoever speeds up only the backward pass."""
