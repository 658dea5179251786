"""Help and validation stay instant: what they import is counted, in processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]
HEAVY = (
    "mlflow", "sklearn", "surprise", "numba", "pandas", "scipy", "pyarrow", "altair", "vl_convert", "rich", "http",
)  # fmt: skip
START = (*HEAVY, "numpy", "pydantic", "yaml")  # what a command that only shows its help may not import
CLUSTER = ("ray", "dask", "distributed", "pyspark", "deltalake", "fsspec")


def imported_by(code: str, depth: int = 1) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {".".join(line.split(".")[:depth]) for line in done.stderr.splitlines()}


@pytest.mark.parametrize(
    ("what", "code", "forbidden"),
    [
        ("import", "import evalplugin", (*START, "click")),
        ("help", "from evalplugin.cli import main; main(['--help'])", START),
        ("run help", "from evalplugin.cli import main; main(['run', '--help'])", START),
        ("compare help", "from evalplugin.cli import main; main(['compare', '--help'])", START),
        (
            "validate",
            "from evalplugin.cli import main; assert main(['validate', 'configs/knn.yaml']) == 0",
            HEAVY,
        ),
        *(
            (command, f"from evalplugin.cli import main; assert main({command.split()}) == 0", HEAVY)
            for command in ("list engines", "list checks", "describe check EV114", "schema")
        ),
        *(
            (
                command,
                f"from evalplugin.cli import main; assert main({command.split()}) == 0",
                (*HEAVY, "yaml"),
            )
            for command in (
                *(
                    f"list {kind}"
                    for kind in ("models", "metrics", "datasets", "filters", "splits", "segments")
                ),
                "describe metric ndcg",
                "describe model surprise.KNNBasic",
                "describe dataset csv",
            )
        ),
    ],
)
def test_no_heavy_library_is_imported(what: str, code: str, forbidden: tuple[str, ...]) -> None:
    assert imported_by(code) & {*forbidden, *CLUSTER} == set()


@pytest.mark.parametrize("users", [2, 2**20], ids=["few rows", "in ranges of users"])
def test_scoring_parquet_imports_neither_pandas_nor_mlflow(tmp_path: Path, users: int) -> None:
    user = np.arange(users).repeat(2)
    item, rank = np.tile([5, 6], users), np.tile([1, 2], users)
    lists, truth = (
        {"user": user, "item": item, "rank": rank},
        {"user": user[:2], "item": [6, 8], "rating": [4.0, 3.0]},
    )
    for name, columns in ("lists", lists), ("truth", truth):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=2**18)
    files = [f"--{name}={tmp_path / name}.parquet" for name in ("lists", "truth")]
    command = ["score", *files, "--rank=rank", "--rating=rating", "--metric=ndcg@10", "--metric=rr"]
    code = f"from evalplugin.cli import main; assert main({command}) == 0"
    assert imported_by(code) & {"pandas", "mlflow", "sklearn", "surprise", "vl_convert", *CLUSTER} == set()


SMALL = """\
experiment: shop
datasets: [{type: synthetic, n_users: 60, n_items: 40, n_interactions: 900}]
split: {type: last_n, n: 1}
models: [popularity, random]
metrics: [ndcg@5]
compare: {baseline: popularity}
tracking: {uri: "sqlite:///mlflow.db"}
"""


def started_in(folder: Path, command: str) -> str:
    """Return code that runs a command in a folder."""
    arguments = command.split()
    return f"import os; os.chdir({str(folder)!r})\nfrom evalplugin.cli import main; assert main({arguments}) == 0"


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config and the store of its bake-off."""
    folder = tmp_path_factory.mktemp("logged")
    (folder / "small.yaml").write_text(SMALL)
    imported_by(started_in(folder, "run small.yaml"))
    return folder


@pytest.mark.parametrize("command", ["data", "run --dry-run", "power"])
def test_planning_opens_no_store_and_imports_neither_pandas_nor_mlflow(logged: Path, command: str) -> None:
    forbidden = {"mlflow", "pandas", "pyarrow", "sklearn", "surprise", "numba", "vl_convert", *CLUSTER}
    assert imported_by(started_in(logged, f"{command} small.yaml")) & forbidden == set()


@pytest.mark.parametrize("command", ["compare", "history", "power small.yaml"])
def test_reading_a_store_imports_no_library_of_models_or_pictures(logged: Path, command: str) -> None:
    where = "--experiment shop --tracking-uri sqlite:///mlflow.db"
    unused = {"sklearn", "surprise", "numba", "altair", "vl_convert", "optuna"}
    assert imported_by(started_in(logged, f"{command} {where}")) & unused == set()


_COMPONENTS = {"data", "metrics", "models", "segments", "config"}


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("list models", "models"),
        ("list datasets", "data"),
        ("list splits", "data"),
        ("describe split last_n", "data"),
        ("list metrics", "metrics"),
        ("describe metric ndcg", "metrics"),
        ("describe model surprise.SVD", "models"),
    ],
)
def test_a_command_imports_only_the_components_that_it_shows(command: str, package: str) -> None:
    own = imported_by(f"from evalplugin.cli import main; assert main({command.split()}) == 0", depth=2)
    assert own & {f"evalplugin.{name}" for name in _COMPONENTS} == {f"evalplugin.{package}"}
    assert "yaml" not in own


def test_every_public_name_is_there() -> None:
    import evalplugin

    for name in evalplugin.__all__:
        assert getattr(evalplugin, name) is not None
    # A package of the same name would hide it as soon as something imports that package.
    assert not [name for name in evalplugin.__all__ if (ROOT / "evalplugin" / name).is_dir()]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = evalplugin.nothing


def test_every_dependency_stands_in_the_table_and_clusters_are_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    base, test = (
        {re.match(r"[\w-]+", line)[0] for line in lines}
        for lines in (project["dependencies"], extras["test"])
    )
    assert (base | test) & set(CLUSTER) == set()
    table = (ROOT / "evalplugin" / "README.md").read_text("utf-8").partition("## Dependencies")[2].lower()
    names = base | {
        re.match(r"[\w-]+", line)[0]
        for key in ("apprise", "pictures", "ray", "dask", "spark", "s3", "delta")
        for line in extras[key]
    }
    assert [name for name in sorted(names) if name not in table] == []


def modules() -> list[str]:
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "evalplugin").rglob("*.py")
        if path.name != "__main__.py"
    )


def test_all_is_complete() -> None:
    """``__all__`` of a package has every public function and class that it defines, and nothing that is not there."""
    import importlib
    import inspect

    listing = [module for module in map(importlib.import_module, modules()) if hasattr(module, "__all__")]
    assert len(listing) > 5
    for module in listing:
        name = module.__name__
        listed = set(module.__all__)
        assert [public for public in listed if not hasattr(module, public)] == [], name
        defined = {
            public
            for public, value in vars(module).items()
            if not public.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__module__ == name
        }
        assert defined - listed == set(), name


def test_no_inner_module_imports_the_package_root() -> None:
    import ast

    package = ROOT / "evalplugin"
    found = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "evalplugin":
                names = [n.name for n in node.names if not any(package.glob(f"{n.name}*"))]
            elif isinstance(node, ast.Import):
                names = [n.name for n in node.names if n.name == "evalplugin"]
            else:
                continue
            found += [f"{path.relative_to(package)}:{node.lineno}: {name}" for name in names]
    assert found == []


def test_scripts_import_names_that_exist() -> None:
    """The scripts of experiments and examples, most of which no test runs, follow the package when it changes."""
    import ast
    import importlib

    scripts = [file for folder in ("examples", "experiments") for file in (ROOT / folder).rglob("*.py")]
    imported = {
        (str(file.relative_to(ROOT)), node.module, name.name)
        for file in scripts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "evalplugin"
        for name in node.names
    }
    assert len(imported) > 50
    known = set(modules())
    missing = [
        f"{file}: {module}.{name}"
        for file, module, name in sorted(imported)
        if f"{module}.{name}" not in known and not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []
