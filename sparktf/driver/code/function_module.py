"""Functions of a program, as a module that the configuration can name: functions of a notebook's cells have none.

The module has a folder of its own and travels like any other: Spark sends its file, and the pickle beside it, to
executors. Nothing is unpickled from a socket.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import io
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import IO, Any

import cloudpickle

from sparktf.driver.code.module import PARAMETERS, search_path
from sparktf.errors import ConfigError
from sparktf.process.module_search import find_module
from sparktf.process.sent_sources import SentSource, name_code

_INSTALLED = {"site-packages", "dist-packages"}
_ON_EACH_NODE = {"sparktf", "pyspark", "py4j", *sys.stdlib_module_names}
"""Packages that are there wherever functions go, also Spark's own from a SPARK_HOME, which is no installed package."""
_UNNAMED = "<unnamed>"
"""In place of the file of code whose name travels beside it."""
_TEXT = '''"""Functions of a program: made by sparktf."""

from pathlib import Path

import cloudpickle

from sparktf.process.sent_sources import remember_sources

{parameters}
with (Path(__file__).parent / "{pickle}").open("rb") as _file:
    _FUNCTIONS = cloudpickle.load(_file)
    remember_sources(cloudpickle.load(_file))
{bound}
'''

UserFunction = Callable[..., Any]


def name_functions(functions: Mapping[str, UserFunction], folder: Path) -> dict[str, str]:
    """Returns the names of functions for a configuration: as `module:function`, all of the same module.

    Functions in a module of the user's that can be found elsewhere are named by it. Others, such as closures, travel by
    value, together with all that they use of the program and of modules beside it, and with the text of their cells.

    Args:
        functions: Name that the function has -> the function.
        folder: Folder of the module that is made; takes any number of them.

    Raises:
        ConfigError: one is not callable, or holds an object that cannot be pickled.
    """
    for name, function in functions.items():
        check_function(name, function)
    homes = {name: _home(function) for name, function in functions.items()}
    if len({home.partition(":")[0] for home in homes.values()}) == 1 and all(homes.values()):
        return homes
    try:
        with _by_value(_modules_of_program()):
            content = _pickled(functions)
    except Exception as error:  # any error of a user's object that is pickled
        names = ", ".join(functions)
        raise ConfigError(
            f"{names}: {type(error).__name__}: {error}: everything that the function uses is sent to other "
            "processes; create models, sessions and open files inside the function"
        ) from error
    module = f"sparktf_functions_{hashlib.sha256(content).hexdigest()[:12]}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{module}.pickle").write_bytes(content)
    bound = "\n".join(f"{name} = _FUNCTIONS[{name!r}]" for name in functions)
    (folder / f"{module}.py").write_text(
        _TEXT.format(pickle=f"{module}.pickle", bound=bound, parameters=f"{PARAMETERS} = {_counts(functions)}")
    )
    importlib.invalidate_caches()
    return {name: f"{module}:{name}" for name in functions}


def _pickled(functions: Mapping[str, UserFunction]) -> bytes:
    """Returns the functions as a pickle, and behind it one of the sources of those that go by value."""
    content = io.BytesIO()
    pickler = _NotingPickler(content)
    pickler.dump(dict(functions))
    content.write(cloudpickle.dumps({file: tuple(source) for file, source in sorted(pickler.sources.items())}))
    return content.getvalue()


class _NotingPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Sends code with a name for its source, and notes that: the lines of a function, and not those around it.

    By itself cloudpickle leaves the name of its file out. Names do not depend on where the function was defined: the
    same functions are the same module.

    Attributes:
        sources: Name -> source.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.sources: dict[str, SentSource] = {}

    def reducer_override(self, obj: Any) -> Any:
        """Returns how an object is pickled."""
        if not isinstance(obj, CodeType) or obj.co_filename == _UNNAMED:
            return super().reducer_override(obj)
        unnamed = obj.replace(co_filename=_UNNAMED)
        name = self._noted(obj)
        return (name_code, (unnamed, name)) if name else super().reducer_override(unnamed)

    def _noted(self, code: CodeType) -> str:
        """Returns the name of a function's source; "" where nobody has its text."""
        try:
            lines, first = inspect.getsourcelines(code)
        except (OSError, SyntaxError, TypeError, tokenize.TokenError):
            return ""
        text = "\n" * (first - 1) + "".join(lines)
        file = Path(code.co_filename)
        label = file.name if file.is_file() else "cell"
        name = f"<{label} {hashlib.sha256(text.encode()).hexdigest()[:8]}>"
        self.sources[name] = SentSource(label, text)
        return name


def _counts(functions: Mapping[str, UserFunction]) -> dict[str, int]:
    found = {}
    for name, function in functions.items():
        with suppress(TypeError, ValueError):  # a function of C, which has no signature
            found[name] = len(inspect.signature(function).parameters)
    return found


def check_function(name: str, function: Any) -> None:
    """Checks that `function` is one; a model is called with rows, and must not be called with params.

    Raises:
        ConfigError: it is not callable, or an object of Keras.
    """
    if of_keras := _kind_of_keras(function):
        raise ConfigError(
            f"{name} must be a function that builds and returns the compiled model in each training process, not "
            f"{of_keras}: give def build(params, assets): ...; return model"
        )
    if not callable(function):
        raise ConfigError(f"{name} must be a function, or its name as module:function, not {function!r}")


def _kind_of_keras(value: Any) -> str:
    """Returns a description of an object, or a class, of Keras; "" for anything else."""
    cls = value if isinstance(value, type) else type(value)
    if not any(base.__module__.partition(".")[0] in ("keras", "tf_keras") for base in cls.__mro__):
        return ""
    return f"the class {cls.__name__}" if isinstance(value, type) else f"a {cls.__name__}"


def _home(function: UserFunction) -> str:
    """Returns a function's name as module:function; "" where other processes cannot import it by that name."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
    loaded = sys.modules.get(module)
    if module == "__main__" or not name.isidentifier() or getattr(loaded, name, None) is not function:
        return ""
    found = find_module(module, search_path(None))
    file = getattr(loaded, "__file__", None)
    return f"{module}:{name}" if found is not None and file is not None and found.origin == file else ""


def _modules_of_program() -> list[ModuleType]:
    """Returns the modules that are neither installed nor Python's own: other machines may lack them.

    Each of them once, also where the program knows it by a second name.
    """
    base = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    found = []
    for module in {id(module): module for module in list(sys.modules.values())}.values():
        file, name = getattr(module, "__file__", None), getattr(module, "__name__", "__main__")
        if file is None or name == "__main__" or name.partition(".")[0] in _ON_EACH_NODE:
            continue
        path = Path(file).resolve()
        if not _INSTALLED.intersection(path.parts) and not base.intersection(path.parents):
            found.append(module)
    return found


@contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    """Has cloudpickle pickle the definitions of these modules by value instead of by name."""
    known = set(cloudpickle.list_registry_pickle_by_value())
    added = [module for module in modules if module.__name__ not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)
