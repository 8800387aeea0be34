"""What is asked of a model, and what the answer means."""

import probes  # noqa: F401 (serves old names of modules, also of this package)

OWNER = "miles"
