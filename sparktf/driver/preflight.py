"""Checks before anything is held: whatever can be refused early is refused early, with the setting to change."""

from __future__ import annotations

import ast
import importlib.util
import zipfile
from hashlib import sha256
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from sparktf.errors import PreflightError, StorageError
from sparktf.storage.base import Storage


def check_output(storage: Storage, path: str) -> None:
    """Refuses an output that cannot be written, renamed or deleted in.

    Raises:
        PreflightError: with the file system's reason.
    """
    try:
        storage.probe(path)
    except StorageError as e:
        raise PreflightError(f"output.path cannot be written: {e}") from e


def find_source(module: str) -> Path | None:
    """Returns the source file of a module that the driver could import, without importing it; None if there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def defines(module: str, function: str) -> bool:
    """Whether the source of a module, which may lie in a zip of `--py-files`, has a top-level function of that name.

    False where there is no source to look at, or none that Python understands: a trainer says that with more to show.
    """
    try:
        spec = importlib.util.find_spec(module)
        get_source = getattr(spec.loader, "get_source", None) if spec is not None else None
        tree = ast.parse(get_source(module) or "" if get_source is not None else "")
    except (ImportError, ValueError, SyntaxError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)


def ship_model_code(spark: SparkSession, module: str) -> None:
    """Sends the model's module, or the top-level package it is in, to the executors.

    Like `--py-files`, for the common case that the code lies beside the driver's script. Installed packages are
    expected to be on the executors already.
    """
    top = module.partition(".")[0]
    source = find_source(module)
    root = find_source(top)
    if source is None or "site-packages" in source.parts or not source.is_file():
        return
    package = root.parent if root is not None and root.name == "__init__.py" else _namespace_folder(source, module)
    files = sorted(package.rglob("*.py")) if package is not None else [source]
    base = package.parent if package is not None else source.parent
    digest = sha256(b"".join(str(f.relative_to(base)).encode() + f.read_bytes() for f in files)).hexdigest()[:12]
    # Executors fetch the archive whenever they come, so it lies in the application's own folder and goes with it.
    folder = Path(SparkFiles.getRootDirectory()) / "sparktf-code"
    folder.mkdir(exist_ok=True)
    archive = folder / f"{top}-{digest}.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in files:
            zipped.write(file, str(file.relative_to(base)))
    spark.sparkContext.addPyFile(str(archive))


def _namespace_folder(source: Path, module: str) -> Path | None:
    """Returns the top folder of a package without `__init__.py`; None for a module that is in no package."""
    depth = module.count(".")
    return source.parents[depth - 1] if depth else None
