"""`python -m sparktf`: the console script, where its folder is not in PATH."""

from __future__ import annotations

import sys

from sparktf.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
