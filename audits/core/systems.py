"""What the command line needs of the systems below: locks on files."""

from probes.core.systems import REMOVES_OPEN_FILES as REMOVES_OPEN_FILES
from probes.core.systems import lock as lock
from probes.core.systems import open_lock as open_lock
