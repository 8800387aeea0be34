"""`python -m miles_cli`: the same as `miles`."""

import sys
from pathlib import Path

# The script does not look for modules where it is called, and neither does this before all else: a folder of the user's
# that is named audits or probes would stand in the place of ours.
if sys.path[:1] == [str(Path.cwd())] and not Path(__file__).is_relative_to(sys.path[0]):
    sys.path.append(sys.path.pop(0))

from miles_cli.main import main

main()
