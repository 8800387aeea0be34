"""Scores of points that are higher the more a model, or what it made, speaks for their having been trained on."""
