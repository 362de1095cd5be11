"""Where a module would be imported from, found without importing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import FileFinder, ModuleSpec, PathFinder


def find_module(module: str, path: Sequence[str]) -> ModuleSpec | None:
    """Returns where a module would be imported from, None if nowhere.

    Not even the packages around it are imported. The spec's name is the last part of the module's.
    """
    forget_folders()
    found: ModuleSpec | None = None
    places: Sequence[str] = path
    for depth, part in enumerate(module.split(".")):
        # The bare part: asked for a dotted name, the finder wants the package around it to be imported.
        found = PathFinder.find_spec(part, places)
        if found is None and not depth:
            found = _found_otherwise(part)
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    return found


def forget_folders() -> None:
    """Has Python list the folders that it imports from anew: files may have come since.

    `importlib.invalidate_caches` would read all zips again, too, which do not change: a tenth of a second for Spark's.
    """
    for place, finder in list(sys.path_importer_cache.items()):
        if finder is None or not os.path.isabs(place):
            del sys.path_importer_cache[place]
        elif isinstance(finder, FileFinder):
            finder.invalidate_caches()


def _found_otherwise(name: str) -> ModuleSpec | None:
    """Returns what finders other than folders and zips find: built-in modules, packages installed as editable."""
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path if finder is not PathFinder)
    return next(filter(None, (find(name, None) for find in finders if find is not None)), None)
