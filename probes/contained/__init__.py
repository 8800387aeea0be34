"""Read untrusted files in child processes that can reach nothing else and cannot exhaust the machine.

A fork server, one for each process, starts with the first job and pays for heavy imports once. Each job runs in a fork
of it behind walls: limits of memory and of processor time, and on Linux no network, no other program, and no file but
those that it was given and the installed libraries. What comes back is read as data: nothing is unpickled. Where the
system cannot fork, each job has a process of its own; `missing_walls` says what else a system lacks.
"""

from probes.contained.block_limits import within as within
from probes.contained.client import Session as Session
from probes.contained.client import call as call
from probes.contained.client import warm as warm
from probes.contained.limits import ContainedError as ContainedError
from probes.contained.limits import LimitError as LimitError
from probes.contained.limits import Limits as Limits
from probes.contained.sandbox import missing_walls as missing_walls
