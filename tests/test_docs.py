"""Every example of the documentation works as its page says."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pages import run_page
from servers import S3_CLIENT, ObjectStorage

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
PAGES = sorted(
    str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if "_build" not in page.relative_to(DOCS).parts
)
RUN = {"python", "sh", "yaml", "toml", "text"}
REMOTE, STORES = "howto/tracking.md", "howto/object_stores.md"  # their servers are fixtures
SERVED = "howto/serving.md"
CLUSTERS = {"howto/cluster.md", "howto/spark.md"}
# Several bake-offs each: run by .ci/run alone.
LONG = {
    f"howto/{name}.md"
    for name in (
        "by_hand", "ci", "command", "compare", "compare_scores", "data", "deployed", "extend",
        "gate", "files", "given_lists", "gpu", "libraries", "lists", "logged", "metrics", "model", "mlflow_evaluate",
        "new_users", "schedules", "seeds", "segments", "sessions", "several_datasets", "tuning",
        "upgrading",
    )
}  # fmt: skip


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables that the pages read, made as their readers make them."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        runpy.run_path(str(ROOT / "examples" / "make_shop.py"))
    return folder


@pytest.fixture
def shop(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables in the working directory, the examples beside it, and the environment's programs."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("EVALPLUGIN_DATA_HOME", "EVALPLUGIN_STORE"):  # printed units and outputs name what is set
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(made, ".", dirs_exist_ok=True)
    shutil.copytree(ROOT / "examples", "examples")


@pytest.mark.filterwarnings("ignore::Warning:mlflow")  # of MLflow's own calls
@pytest.mark.filterwarnings("ignore:_ImportHookChainedLoader:ImportWarning")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of Spark's connections to Java
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            marks=[
                *[pytest.mark.slow] * (page in {*LONG, *CLUSTERS, SERVED}),
                *[pytest.mark.cluster] * (page in CLUSTERS),
                *[pytest.mark.server] * (page == SERVED),
            ],
        )
        for page in PAGES
        if page not in (REMOTE, STORES) and not page.startswith("contributing/")
    ],
)
def test_the_examples_of_a_page_work(page: str, shop: None) -> None:
    run_page(DOCS / page)


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning:mlflow")
def test_the_examples_of_the_page_on_servers_work(shop: None, database: str, storage: ObjectStorage) -> None:
    address = urlsplit(database)
    names = {
        "postgresql://postgres@": f"postgresql://{address.username}@",
        "db.example.org": f"{address.hostname}:{address.port}",
        "https://s3.example.org": storage.proxy.url,
        "s3://bake-offs": storage.bucket,
        "--host 0.0.0.0": "--host 127.0.0.1",
    }
    assert all(name in (DOCS / REMOTE).read_text() for name in names)
    run_page(DOCS / REMOTE, names)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning:mlflow")
def test_the_examples_of_the_page_on_object_stores_work(shop, storage, monkeypatch):
    for name, value in S3_CLIENT.items():
        monkeypatch.setenv(name, value)
    names = {"https://s3.example.org": storage.proxy.url, "s3://shop-data": f"{storage.bucket}/shop-data"}
    run_page(DOCS / STORES, names)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_one_that_is_run(page: str) -> None:
    text = re.sub(r"<!-- generated: .*?<!-- end -->", "", (DOCS / page).read_text(), flags=re.DOTALL)
    fences = re.findall(r"^ *```(?!`)(\S.*)$", text, re.MULTILINE)
    plain = {fence for fence in fences if not fence.startswith("{")}
    blocks = {fence.split()[-1] for fence in fences if re.match(r"\{code(-block)?\}", fence)}
    run = {"diff", "sh"} if page.startswith("contributing/") else RUN  # by test_contributing.py
    assert plain | blocks <= run


# The factory of an executor is no script; the tests of that engine call it.
@pytest.mark.filterwarnings("ignore::Warning:mlflow")
@pytest.mark.parametrize("example", [name for name in EXAMPLES if name != "dask_executor.py"])
def test_an_example_runs(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / example), run_name="__main__")
    assert capsys.readouterr().out or list(Path().iterdir())


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_a_link(example: str) -> None:
    assert any(f"examples/{example}" in (DOCS / page).read_text() for page in PAGES)
