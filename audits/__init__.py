"""What is asked of a model, and what the answer means."""

OWNER = "miles"
