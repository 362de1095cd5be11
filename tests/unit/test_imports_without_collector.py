"""Large modules are imported without the garbage collector, also by a program that imports them itself."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

import pytest

from sparktf.trainer.preload import import_without_collector


def test_the_collector_rests_while_a_large_module_and_what_it_imports_are_loaded_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large_inside.py").write_text("import gc\n\nIS_ON = gc.isenabled()\n")
    (tmp_path / "large_outside.py").write_text("import gc\n\nimport large_inside\n\nIS_ON = gc.isenabled()\n")
    (tmp_path / "small.py").write_text("import gc\n\nIS_ON = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    import_without_collector(["large_inside", "large_outside"])
    outside, inside, small = map(importlib.import_module, ("large_outside", "large_inside", "small"))
    assert (outside.IS_ON, inside.IS_ON, small.IS_ON) == (False, False, True)
    assert gc.isenabled()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("large_but_not_there")
    gc.unfreeze()
