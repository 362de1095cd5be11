"""`python -m kubernetes COMMAND...`: runs a command as root in a network of its own, as tests of pods need it.

Whatever it has started ends with it, and so do its bridges and cables: the kernel sees to both. There is no way out of
that network, so that nothing can be fetched from there.
"""

from __future__ import annotations

import os
import sys

from minihadoop.errors import MiniHadoopError
from minihadoop.namespaces import edge_options
from minihadoop.prerequisites import check_tools

# A shell as the first process: it takes in orphans, and a signal from the terminal does not end it before the command.
_RUN = 'ip link set lo up; "$@"; exit $?'


def main() -> int:
    """Becomes the command; returns an exit code if it cannot."""
    try:
        check_tools()
        options = [*edge_options(user_namespace=False), "--pid", "--fork", "--kill-child", "--mount-proc"]
    except MiniHadoopError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    os.execvp("unshare", ["unshare", *options, "sh", "-c", _RUN, "sh", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
