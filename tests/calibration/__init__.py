"""How often do the intervals of every audit hold, and how often is a finding told falsely? See run.py."""
