"""The project's checks: `nox` runs all that are quick, `nox -s NAME` one of them."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import nox

# `.venv/bin/nox` finds the programs beside it, whether the environment is activated or not.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
nox.options.default_venv_backend = "none"  # the environment that nox is installed in
nox.options.sessions = ["lint", "types", "imports", "docs", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Check format and lint."""
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.run("mypy")


@nox.session
def imports(session: nox.Session) -> None:
    """Check that imports go only down the layers."""
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """Check the generated parts of pages, and build the site; warnings are errors."""
    session.run("python", "docs/generate.py", "--check")
    session.run(
        "sphinx-build", "-E", "-W", "-n", "--keep-going", "-q", "docs", "docs/_build", *session.posargs
    )


@nox.session
def linkcheck(session: nox.Session) -> None:
    """Check links to other sites; needs a network, so it is no part of the gate."""
    session.run("sphinx-build", "-b", "linkcheck", "-q", "docs", "docs/_build/linkcheck", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests."""
    session.run("python", "-m", "pytest", "-q", "-n", "2", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests that take long."""
    # Not a file at a time: many have one such test, and the last one to start may take minutes.
    session.run(
        "python", "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "slow and not cluster",
        *session.posargs,
    )  # fmt: skip


@nox.session
def clusters(session: nox.Session) -> None:
    """Run the tests on Ray, Dask and Spark, one after the other: two Ray clusters of a machine disturb each other."""
    session.run("python", "-m", "pytest", "-q", "-m", "cluster", *session.posargs)


@nox.session(venv_backend="venv", reuse_venv=True)
def oldest(session: nox.Session) -> None:
    """Run the tests with the oldest version of each dependency that pyproject.toml allows."""
    session.install("uv")
    session.run("uv", "pip", "install", "-q", "--python", str(Path(session.bin, "python")),
                "--resolution", "lowest-direct", "-e", ".[test]")  # fmt: skip
    session.run("python", "-m", "pytest", "-q", "-n", "2", *session.posargs)


@nox.session(venv_backend="venv", reuse_venv=True)
def newest(session: nox.Session) -> None:
    """Run the tests that talk to MLflow, slow ones too, with its newest version or pre-release."""
    session.install("-e", ".[test]")
    session.install("--pre", "--upgrade", "mlflow")
    session.run(
        "python", "-m", "pytest", "-q", "-n", "2", "-m", "slow or not slow", "tests/tracking", "tests/features/gate",
        "tests/test_mlflow_evaluator.py", "tests/test_reference.py", *session.posargs,
    )  # fmt: skip


@nox.session(venv_backend="venv", reuse_venv=True)
def package(session: nox.Session) -> None:
    """Build the source archive, the wheel from it, and run a bake-off from the wheel."""
    session.install("build", "twine")
    config = Path("configs", "blobs.yaml").resolve()
    with tempfile.TemporaryDirectory() as folder:
        session.run("python", "-m", "build", "--outdir", f"{folder}/dist")
        built = [str(file) for file in Path(folder, "dist").iterdir()]
        session.run("twine", "check", "--strict", *built)
        (wheel,) = (file for file in built if file.endswith(".whl"))
        # The dependencies are those of the environment that nox is installed in.
        session.run("pip", "install", "-q", "--no-deps", "--target", f"{folder}/installed", wheel)
        command = [sys.executable, "-m", "evalplugin", "run", str(config)]
        with session.chdir(folder):
            session.run(*command, env={"PYTHONPATH": f"{folder}/installed"}, external=True)


@nox.session(venv_backend="venv", reuse_venv=True)
def lenskit(session: nox.Session) -> None:
    """Run the tests that need LensKit, which brings PyTorch and often pandas 2, in an environment of their own."""
    # Where pip knows a build of this version without CUDA (2.13.0+cpu), it takes that one: 2 GB instead of 6.
    session.install(
        "--no-compile", "-e", ".[implicit,lenskit]", "torch==2.13.0", "hypothesis", "pytest", "pytest-xdist"
    )
    session.run(
        "python", "-m", "pytest", "-q", "tests/models/test_lenskit_models.py", "tests/metrics/test_lenskit_metrics.py",
        "tests/test_libraries.py", "-m", "slow or not slow", *session.posargs,
    )  # fmt: skip


@nox.session(venv_backend="venv", reuse_venv=True)
@nox.parametrize("library", ["rectools[torch]==0.19.0", "cornac==3.0.1"], ids=["rectools", "cornac"])
def programs(session: nox.Session, library: str) -> None:
    """Run a program of examples/programs in an environment of its own, as `type: command` does."""
    name, *torch = re.findall(r"[a-z]+", library)
    # Newer versions of pyarrow need numpy 2, which RecTools does not take. PyTorch is that of the session lenskit.
    session.install(library, "pandas", "pyarrow<26", *(f"{part}==2.13.0" for part in torch))
    session.run(
        sys.executable, "-m", "pytest", "-q", "tests/test_programs.py", "-m", "slow", "-k", name, *session.posargs,
        env={f"EVALPLUGIN_TEST_{name.upper()}": str(Path(session.bin, "python"))}, external=True,
    )  # fmt: skip


@nox.session
def robustness(session: nox.Session) -> None:
    """Try to break it, with as many examples as a night has time for."""
    session.run(
        "python", "-m", "pytest", "tests/robustness", "--hypothesis-profile", "nightly",
        "-m", "slow or not slow", *session.posargs,
    )  # fmt: skip
