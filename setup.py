"""Installs qclimb: the Python packages, the console commands and libqclimb.so."""

import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

try:
    from setuptools.command.editable_wheel import _StaticPth, editable_wheel
except ImportError:  # then setuptools does it its own way
    editable_wheel = None

HERE = Path(__file__).parent

HOST = ["click>=8.1", "pyelftools>=0.31", "numpy>=1.26"]
SWITCH = (HERE / "switchd/container/requirements.txt").read_text(encoding="utf-8").split()
"""A file: a switch's image has these alone, and not the orchestrator's."""
ORCHESTRATOR = [
    "fastapi>=0.135",
    "fastapi-offline>=1.7",
    "uvicorn>=0.31",
    "uvloop>=0.19",
    "httptools>=0.6",
    "immutables>=0.20",
    "sqlalchemy>=2.0",
    "alembic>=1.13",
    "psycopg[binary]>=3.1",
    "numpy>=1.26",
    "scikit-learn>=1.4",
    "scipy>=1.11",
    "onnx>=1.16",
    "onnxruntime>=1.18",
    "pyarrow>=16",
    "pygnmi==0.8.15",
    "cryptography>=42",
    "grpcio>=1.66",
    "protobuf>=5.29",
    "libyang==2.7.1",
    "prometheus-client>=0.20",
    "redis>=5",
    "httpx>=0.27",
    "rich>=13",
]
LAB = [
    "numpy>=1.26",
    "matplotlib>=3.8",
    "jinja2>=3.1",
    "joblib>=1.4",
    "networkx>=3.2",
    "rich>=13",
    "redis>=5",
    "cryptography>=42",
    "httpx>=0.27",
    "pyarrow>=16",
    "scipy>=1.11",
]
CLUSTER = ["ray>=2.40", "joblib>=1.4"]
"""240 MB, for `qclimb figures --cluster` alone."""
SPARK = ["pyspark>=3.5", "numpy>=1.26"]
"""456 MB, for `qclimb lab record spark` alone."""
DEV = [
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-randomly>=3.15",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "trustme>=1.1",
    "jsonschema>=4",
    "kubernetes-validate>=1.30",
    "schemathesis>=4",
    "playwright>=1.45",
    "quantile-forest>=1.4",
    "pyang>=2.6",
    "mypy>=1.11",
    "ruff>=0.6",
    "types-tabulate",
]


BPF_OBJECTS = ("tagger.bpf.o", "scope.bpf.o", "restore.bpf.o", "unmarked.bpf.o", "write.bpf.o", "write_fentry.bpf.o")


class BuildWithPrograms(build_py):
    """Builds libqclimb.so and the simulator's engine by make and lays them into their packages."""

    def run(self) -> None:
        self.make("hostlib", "lib", "libqclimb.so")
        self.make("hostlib", "tls", "libqclimb-tls.so")
        self.make("lab/sim/engine", "sim", "qclimb-sim")
        has_clang = shutil.which("clang") is not None  # without it hostd says that there is no tagger
        if has_clang:
            self.make("hostlib", "tagger", BPF_OBJECTS[0])
        super().run()
        if not self.editable_mode:
            self.lay("hostlib", "libqclimb.so")
            self.lay("hostlib", "libqclimb-tls.so")
            self.lay("lab/sim/engine", "qclimb-sim")
            for made in BPF_OBJECTS if has_clang else ():
                self.lay("hostlib", made)

    def make(self, folder: str, target: str, made: str) -> None:
        try:
            subprocess.run(["make", "-s", "-C", str(HERE / folder), target], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"{folder}/build/{made} needs make, a C and a C++17 compiler: {error}") from None

    def lay(self, folder: str, made: str) -> None:
        target = Path(self.build_lib) / folder / "build"
        target.mkdir(parents=True, exist_ok=True)
        self.copy_file(str(HERE / folder / "build" / made), str(target / made))


class WithPrograms(Distribution):
    """Belongs to one platform, though nothing in it is a Python extension."""

    def has_ext_modules(self) -> bool:
        return True


class WheelOfThisMachine(bdist_wheel):
    """A wheel for each Python 3, and for this platform alone: it has programs inside."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


COMMANDS = {"build_py": BuildWithPrograms, "bdist_wheel": WheelOfThisMachine}

if editable_wheel is not None:

    class EditableByPath(editable_wheel):
        """Installs a checkout as the two folders on the path in which its packages lie, as PYTHONPATH would.

        By itself setuptools puts a finder before all imports for a `package_dir` of several entries, which type
        checkers can't follow, and warns of it: a folder of a package's name in the working directory would come first.
        """

        def _select_strategy(self, name: str, tag: str, build_lib: str) -> _StaticPth:
            return _StaticPth(self.distribution, name, [HERE, HERE / "gnmi-models"])

    COMMANDS["editable_wheel"] = EditableByPath

setup(
    name="qclimb",
    version="0.1.0",
    description="Short flows finish first, on the switches and kernels that a data centre already has.",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    package_dir={"qclimb": "gnmi-models/qclimb", "qclimb.yang": "gnmi-models/yang"},
    packages=[
        "qclimb",
        "qclimb.yang",
        "hostlib",
        "hostlib.hostd",
        "switchd",
        "switchd.gnmi",
        "switchd.show",
        "orchestrator",
        "orchestrator.fabric",
        "orchestrator.ingest",
        "orchestrator.models",
        "orchestrator.operate",
        "orchestrator.page",
        "orchestrator.plan",
        "orchestrator.rest",
        "orchestrator.store",
        "orchestrator.store.migrations",
        "orchestrator.store.migrations.versions",
        "orchestrator.watch",
        "lab",
        "lab.cli",
        "lab.control",
        "lab.control.vasic",
        "lab.control.vasic.machine",
        "lab.experiment",
        "lab.fabric",
        "lab.figures",
        "lab.figures.pages",
        "lab.figures.pages.bigspine",
        "lab.figures.pages.optax",
        "lab.figures.pages.pdq",
        "lab.figures.pages.pfabric",
        "lab.figures.pages.product",
        "lab.figures.pages.qclimb",
        "lab.models",
        "lab.record",
        "lab.record.programs",
        "lab.run",
        "lab.run.bounds",
        "lab.run.control",
        "lab.run.deadline",
        "lab.run.bigspine",
        "lab.run.drift",
        "lab.run.optax",
        "lab.run.programs",
        "lab.run.report",
        "lab.run.tagger",
        "lab.sim",
        "lab.sim.coflow",
        "lab.sim.engine",
        "lab.sizes",
        "lab.workload",
    ],
    package_data={
        "qclimb": ["py.typed"],
        "qclimb.yang": ["*.yang"],
        "hostlib": ["core/include/qclimb/*.h", "include/qclimb.h"],
        "switchd": ["container/*"],
        "orchestrator.page": ["static/*", "static/vendor/*"],
        "lab.fabric": ["*.bpf.c"],
        "lab.figures.pages.product": ["threshold_sets.json"],
        "lab.run.programs": ["optax/*.c", "optax/Makefile"],
        "lab.run.report": ["*.html"],
        "lab.sim": ["tables/*.txt"],
        "lab.sizes": ["tables/*.txt"],
        "lab.workload": ["app/*.c", "app/*.h", "app/Makefile"],
    },
    install_requires=sorted({*HOST, *ORCHESTRATOR}),
    extras_require={
        "switch": SWITCH,
        "lab": sorted({*LAB, *SWITCH}),  # its fabric runs switchd
        "cluster": CLUSTER,
        "spark": SPARK,
        "dev": DEV,
        "all": sorted({*SWITCH, *LAB}),
    },
    entry_points={
        "console_scripts": [
            "qclimb = qclimb.cli:main",
            "qclimb-switchd = switchd.cli:main",
            "qclimb-orchestrator = orchestrator.cli:main",
            "qclimb-hostd = hostlib.hostd.cli:main",
            "qclimb-run = hostlib.run:main",
        ],
        "qclimb.commands": [
            "figures = lab.cli.figures:figures",
            "lab = lab.cli:lab",
            "fabric = orchestrator.operate.fabric:fabric",
            "host = orchestrator.operate.devices:host",
            "length = orchestrator.operate.lengths:length",
            "model = orchestrator.operate.models:model",
            "off = orchestrator.operate.off:off",
            "on = orchestrator.operate.off:on",
            "policy = orchestrator.operate.revisions:policy",
            "revision = orchestrator.operate.revisions:revision",
            "rollout = orchestrator.operate.revisions:rollout",
            "switch = orchestrator.operate.devices:switch",
            "token = orchestrator.operate.tokens:token",
        ],
        "qclimb.model_commands": [
            "check = lab.cli.model:check",
            "drift = lab.cli.model:drift",
            "foretell = lab.cli.model:foretell",
            "ladder = lab.cli.model:ladder",
            "sources = lab.cli.model:sources",
            "train = lab.cli.model:train",
        ],
    },
    cmdclass=COMMANDS,
    distclass=WithPrograms,
)
