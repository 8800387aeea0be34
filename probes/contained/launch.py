"""Become another program behind walls: run by its path, with the limits and the words of the program as arguments.

It runs once for every file, so it imports neither numpy nor any other package: what the folders here import when they
are imported as packages is left aside.
"""

import json
import os
import sys
from types import ModuleType


def main() -> None:
    """Confine this process and become the program."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    above = os.path.dirname(here)  # noqa: PTH120
    for name, folder in (("probes", above), ("probes.contained", here), ("probes.core", os.path.join(above, "core"))):  # noqa: PTH118
        package = ModuleType(name)
        package.__path__ = [folder]
        sys.modules[name] = package
    from probes.contained import sandbox

    memory, seconds, reads, runs, parent = json.loads(sys.argv[1])
    sandbox.limit_memory(memory)
    sandbox.limit_time(seconds, last=True)
    sandbox.confine_program(reads, runs)
    # One that died before the kernel was told to end this process with it would leave it running.
    if os.getppid() != parent:
        os._exit(1)
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
