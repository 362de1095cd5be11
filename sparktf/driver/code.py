"""The source of a module, found without importing it, and packed for other machines; what it raises on the driver."""

from __future__ import annotations

import ast
import importlib.util
import traceback
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sparktf.errors import ErrorRecord, ModelError, Verdict


@dataclass(frozen=True, slots=True)
class Code:
    """The source of one top-level module or package.

    Attributes:
        top: Its name.
        base: The folder that it is imported from.
        files: Its Python files, below `base`.
    """

    top: str
    base: Path
    files: tuple[Path, ...]


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


def find_code(module: str) -> Code | None:
    """Returns the source of the top-level module or package that `module` is in.

    None where it need not travel or cannot: installed packages, and what lies in a zip or is not found at all.
    """
    top = module.partition(".")[0]
    source = find_source(module)
    root = find_source(top)
    if source is None or "site-packages" in source.parts or not source.is_file():
        return None
    package = root.parent if root is not None and root.name == "__init__.py" else _namespace_folder(source, module)
    if package is None:
        return Code(top, source.parent, (source,))
    return Code(top, package.parent, tuple(sorted(package.rglob("*.py"))))


def archive_code(code: Code, folder: Path) -> Path:
    """Writes the zip that goes onto `sys.path` elsewhere; its name holds a digest of what is in it."""
    names = [str(file.relative_to(code.base)) for file in code.files]
    contents = [file.read_bytes() for file in code.files]
    digest = sha256(b"".join(n.encode() + c for n, c in zip(names, contents, strict=True))).hexdigest()[:12]
    archive = folder / f"{code.top}-{digest}.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file, name in zip(code.files, names, strict=True):
            zipped.write(file, name)
    return archive


def failed(what: str, error: Exception) -> ModelError:
    """Returns the error for what the user's own code raised on the driver, just now; its record has the traceback."""
    found = ModelError(f"{what}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    found.record = ErrorRecord(
        type="ModelError",
        message=str(found),
        verdict=Verdict.MODEL_FAILED,
        time_s=0.0,
        traceback=traceback.format_exc(),
    )
    return found


def _namespace_folder(source: Path, module: str) -> Path | None:
    """Returns the top folder of a package without `__init__.py`; None for a module that is in no package."""
    depth = module.count(".")
    return source.parents[depth - 1] if depth else None
