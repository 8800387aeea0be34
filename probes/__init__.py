"""How things are measured: model-facing, reusable, without an opinion."""

OWNER = "miles"
