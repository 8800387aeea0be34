"""Measurements of models and readers of files: reusable, without an opinion."""

from probes.renamed import serve_old_names

OWNER = "miles"

serve_old_names()
