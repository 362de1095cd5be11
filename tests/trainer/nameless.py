"""Trains on this machine as a user whose id has no name: `python -m trainer.nameless FOLDER`."""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from pathlib import Path

from trainer import lake
from trainer.local_gang import LocalGang


def main(folder: Path) -> None:
    """Trains one run, and says how it ended."""
    with suppress(KeyError, OSError):
        raise AssertionError(f"this process's user has a name: {getpass.getuser()}")
    lake.write(folder / "lake", [200, 56])
    config = lake.job(
        folder,
        "spoiled",
        params={"flavour": "keras", "until": 100},
        data=lake.NUMBERS_TO_LABEL,
        train={"batch_size": 64, "epochs": 1},
    )
    gang = LocalGang(config, 1)
    try:
        result = gang.train(config)
    finally:
        gang.close()
    print(f"verdict {result.verdict}, rows {result.rows_trained}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
