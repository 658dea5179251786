"""The reference pages name what the code has: keys of a config, what is logged, public names, exit codes."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from samples import comparisons, files_of, filled, whole

import evalplugin
from evalplugin.base import errors
from evalplugin.cli import main
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import compare
from evalplugin.comparison.contest import Contest
from evalplugin.features.checks.catalogue import CHECKS
from evalplugin.features.config import load
from evalplugin.features.off_policy.feature import OffPolicyFeature
from evalplugin.features.ranks.feature import RanksFeature
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.tracking.write.items import Item

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"

sys.path.insert(0, str(ROOT / "docs"))
import generate  # noqa: E402
from config_keys import ConfigKey, config_keys, top_level_keys  # noqa: E402 - of the folder above

CONFIG_KEYS = r"<!-- generated: config-keys (.*) -->"
KEYS = [key for name in top_level_keys() for key in config_keys(name)]


def test_generated_parts_of_pages_are_up_to_date() -> None:
    stale = [str(page.relative_to(ROOT)) for page in generate.stale_pages()]
    assert stale == [], "run: python docs/generate.py"


def test_generate_names_and_writes_stale_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate, "DOCS", tmp_path / "docs")
    page = tmp_path / "docs" / "long.md"
    page.parent.mkdir()
    part = "<!-- generated: config-keys seed -->\n{}<!-- end -->\n"
    page.write_text(
        f"# Long\n\nA page.\n\n## `a`, b\n\n{part.format('old')}\n{'word ' * 1700}\n\n## C\n\n### C\n"
    )
    before = page.read_text()
    assert (generate.main(["--check"]), page.read_text()) == (1, before)
    assert generate.main([]) == 0
    assert capsys.readouterr().out.split("\n").count("docs/long.md") == 2
    start = "# Long\n\nA page.\n\n<!-- generated: contents -->\n\n- [`a`, b](#a-b)\n- [C](#c): [C](#c-1)\n\n<!-- end"
    assert page.read_text().startswith(start)
    (key,) = config_keys("seed")
    assert f"seed -->\n\n- `seed`: {key.description} *(default `0`)*" in page.read_text()
    assert generate.main(["--check"]) == 0


def test_reference_pages_have_no_directives_of_sphinx() -> None:
    directive = re.compile(r"^ *(?:```\{|:::|%|\(.*\)=$).*|(?<!\$)\{[\w:-]+\}`", re.MULTILINE)
    pages = [*REFERENCE.glob("*.md"), *(ROOT / "docs" / "checks").glob("*.md")]
    assert [(page.name, found) for page in pages if (found := directive.findall(page.read_text()))] == []


def test_every_key_of_a_config_has_a_description_and_an_example() -> None:
    assert [key.path for key in KEYS if not key.description] == []
    assert [key.path for key in KEYS if not (key.example or key.is_section)] == []


def test_the_page_of_the_config_has_every_section_and_an_example_of_it() -> None:
    page = (REFERENCE / "config.md").read_text()
    parts = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    shown = [name for part in parts for name in re.findall(CONFIG_KEYS, part)[0].split()]
    assert sorted(shown) == sorted(top_level_keys())
    for part in parts:
        (names,) = re.findall(CONFIG_KEYS, part)
        examples = re.findall(r"^```yaml\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
        keys = {key for example in examples for key in re.findall(r"^(\w+):", example, re.MULTILINE)}
        assert set(names.split()) <= keys, names


COMPLETE: dict[str, Any] = {
    "experiment": "shop",
    "datasets": [
        {"name": "shop", "type": "csv", "path": "ratings.csv", "user": "user_id", "item": "item_id"}
    ],
    "split": [{"type": "last_n"}],
    "metrics": ["ndcg@10", "recall@10"],
    "models": [{"name": "knn", "type": "surprise.KNNBasic"}, "popularity"],
    "segments": ["cold", "activity"],
    "compare": {"baseline": "popularity"},
    "gate": {
        "challengers": ["knn"],
        "guardrails": {"costs": {"fit_seconds": {"max": 1}}, "segments": {"activity": {"margin": 0.1}}},
    },
    "schedule": {"cron": "0 3 * * *"},
    "notify": {"url": "https://example.org"},
}
VALUES = {"choices": ["rating", "binary"]}
# What some keys need beside them, or cannot stand with.
BESIDE: dict[str, dict[str, Any]] = {
    "datasets[].filters[].type": {"datasets": [{"name": "shop", "type": "synthetic", "filters": ["k_core"]}]},
    "recommend.negatives": {"recommend": {"candidates": "sampled"}},
    "notify.command": {"notify": {}},
    "notify.apprise": {"notify": {}},
    "models[].grid": {"gate": {}},
    "gate.champion.registry": {"gate": {"champion": {}}},
    "register.n": {"register": {"name": "shop-recommender"}},
    "register.refresh": {"register": {"name": "shop-recommender"}},
    **{
        f"models[].tune.PARAMETER.{name}": {
            "models": [{"name": "knn", "type": "ease", "tune": {"l2": space, "values": VALUES}}, "popularity"]
        }
        for name in ("choices", "int", "float", "log", "step")
        for space in [{} if name in ("int", "float") else {"int": [5, 300]}]
    },
    **{
        key.path: {
            "tune": {"split": {"type": "last_n"}} if key.path.startswith("tune.split.") else {},
            "models": [{"name": "knn", "type": "surprise.KNNBasic", "tune": {"k": [5, 20]}}, "popularity"],
        }
        for key in config_keys("tune")
    },
    **{
        f"recommend.{name}": {
            "recommend": {
                "n": 20,
                "candidates": "given",
                "path": "pool;.csv" if name == "separator" else "pool.csv",
            }
        }
        for name in ("path", "validation", "seen", "user", "item", "separator")
    },
    "models[].inputs[].env": {
        "models": [{"name": "knn", "type": "random", "inputs": [{"env": "A"}]}, "popularity"]
    },
}


@pytest.mark.parametrize("key", [key for key in KEYS if key.example], ids=lambda key: key.path)
def test_the_example_of_a_key_is_valid(key: ConfigKey) -> None:
    pd.DataFrame({"user_id": [1, 2], "item_id": [1, 2]}).to_csv("ratings.csv", index=False)
    for separator, name in ((",", "pool.csv"), (";", "pool;.csv"), (",", "pool-validation.csv")):
        pool = pd.DataFrame(columns=["user", "item", "uid", "iid"])
        pool.to_csv(name, index=False, sep=separator)
    Path("my_model.py").touch()
    Path("vendor").mkdir()
    Path("vendor/lists.parquet").touch()
    path = key.path.replace("[]", ".0").replace("COST", "fit_seconds").replace("SEGMENT", "activity")
    path = path.replace("PARAMETER", "values" if path.endswith("choices") else "l2")
    value: Any = load(COMPLETE | BESIDE.get(key.path, {}), overrides=[f"{path}={key.example}"]).spec
    fields = {"register": "register_", "int": "integers", "float": "floats"}
    for part in [fields.get(part, part) for part in path.split(".")]:
        if isinstance(value, dict) or part.isdigit():
            value = value[int(part) if part.isdigit() else part]
        else:
            value = getattr(value, part)
    assert value is not None


def rows(page: str, heading: str) -> list[str]:
    """Return what the first column of the table below a heading names."""
    (part,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    first = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    assert first
    return [name for cell in first for name in re.findall("`([^`]+)`", cell)]


def assert_same(named: list[str], found: Iterable[str], page: str, *, also: Iterable[str] = ()) -> None:
    """Assert that each name that is found matches what the page names or ``also``, and the other way round."""
    found = set(found)
    placeholders = {
        "METRIC": r"[\w-]+",
        "GROUP": ".+",
        "SEGMENT": r"\w+",
        "MODEL": r"[^/]+?",
        "FAMILY": r"\w+",
        "PARAMETER": r"[\w.]+",
        "HASH": "[0-9a-f]+",
    }
    placeholders |= {"FILE": ".+", "BOARD": ".+"}
    patterns = {}
    for name in [*named, *also]:
        pattern = re.escape(name)
        for word, stands_for in placeholders.items():
            pattern = pattern.replace(word, stands_for)
        patterns[name] = re.compile(pattern)
    unnamed = [name for name in found if not any(p.fullmatch(name) for p in patterns.values())]
    assert sorted(unnamed) == [], f"{page} lacks them"
    missing = [name for name in named if not any(patterns[name].fullmatch(one) for one in found)]
    assert missing == [], f"{page} names them, but nothing has them"


FAILS = """
from dataclasses import dataclass
import evalplugin

@evalplugin.model("fails")
@dataclass
class Fails:
    def fit(self, train, rng): raise ValueError
    def scores(self, users): ...
"""


NOTED = """

@evalplugin.model("noted")
@dataclass
class Noted:
    notes = ("made at random",)
    def fit(self, train, rng): self.n_items = train.n_items
    def scores(self, users): return np.tile(np.arange(self.n_items, dtype=float), (len(users), 1))  # the rarest first
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:_ImportHookChainedLoader:ImportWarning")
@pytest.mark.filterwarnings("ignore::Warning:mlflow")  # of MLflow's own calls
@pytest.mark.filterwarnings("ignore:shop")  # what the models and the checks say
@pytest.mark.filterwarnings("ignore:EV")
def test_the_page_on_mlflow_names_all_that_is_logged() -> None:
    # A bake-off that logs whatever can be logged: a commit, titles, a failure, a warning, a gate, an input, tuning.
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["remote", "add", "origin", "https://example.org/shop"],
                    [*identity, "commit", "-q", "--allow-empty", "-m", "start"]):  # fmt: skip
        subprocess.run(["git", *command], check=True)
    rng = np.random.default_rng(0)
    chance = np.arange(1, 41) ** -1.5
    item = np.concatenate([rng.choice(40, 12, replace=False, p=chance / chance.sum()) for _ in range(120)])
    ratings = pd.DataFrame({"user": np.arange(120).repeat(12), "item": item})
    ratings["rating"] = rng.integers(1, 6, 1440)
    ratings.to_csv("ratings.csv", index=False)
    Path("fails.py").write_text(f"import numpy as np\n{FAILS}{NOTED}")
    pd.DataFrame({"item": range(40), "title": "A title"}).to_csv("items.csv", index=False)
    items = {"path": "items.csv", "item": "item", "title": "title"}
    data = {"name": "shop", "type": "csv", "path": "ratings.csv", "rating": "rating"}
    evalplugin.run(
        {
            "experiment": "shop",
            "seeds": 2,
            "plugins": ["fails.py"],
            "datasets": [{**data, "items": items}],
            "split": {"type": "kfold", "k": 2},
            "metrics": ["ndcg@5", "precision_at_recall", "rmse", "coverage@5"],
            "models": [
                "random",
                {"type": "popularity", "inputs": ["items.csv"]},
                "fails",
                "noted",
                {
                    "type": "sklearn.TruncatedSVD",
                    "params": {"n_components": 4},
                    "tune": {"n_components": {"int": [2, 8]}},
                },
            ],
            "tune": {"budget": {"trials": 4, "seconds": 600}},
            "compare": {"baseline": "random"},
            "gate": {"min_users": 20, "decisions": 30, "confidence": 0.5, "challengers": ["popularity"]},
            "register": {"name": "shop"},
            "engine": "local",
        },
        tracking_uri="sqlite:///mlflow.db",
    )
    # And one of queries.
    sessions = pd.DataFrame({"user": np.arange(30).repeat(4), "item": rng.integers(0, 9, 120)})
    sessions.assign(time=np.arange(120)).to_csv("clicks.csv", index=False)
    clicks = {"type": "csv", "path": "clicks.csv", "timestamp": "time", "duplicates": "keep"}
    evalplugin.run(
        {
            "experiment": "shop",
            "datasets": [clicks],
            "split": {"type": "next_item", "test": "n_sessions", "n_sessions": 12},
            "recommend": {"n": 5},
            "metrics": ["rr"],
            "models": ["popularity", "session.markov"],
        },
        tracking_uri="sqlite:///mlflow.db",
    )
    # And one of a table of scores, in which a score is missing.
    table = pd.DataFrame({"question": range(20), "text": np.arange(20) // 2, "a": rng.random(20), "b": 0.5})
    evalplugin.compare_scores(
        table.assign(a=table["a"].where(table["question"] > 0)), unit="question", wide=True, cluster="text", log=True,
        experiment="shop", tracking_uri="sqlite:///mlflow.db",
    )  # fmt: skip

    from mlflow import MlflowClient

    # Absolute: MLflow keeps the store of a URI for the whole process, and other tests have a relative one.
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    experiment = client.get_experiment_by_name("shop")
    runs = client.search_runs([experiment.experiment_id])
    of = {
        role: [run for run in runs if run.data.tags["evalplugin.role"] == role]
        for role in ("model", "summary")
    }
    metrics, tags, params, files = (
        {role: {name for run in of[role] for name in names_of(run)} for role in of}
        for names_of in (
            lambda run: run.data.metrics,
            lambda run: run.data.tags,
            lambda run: run.data.params,
            lambda run: files_of(client, run.info.run_id),
        )
    )
    page = (REFERENCE / "mlflow.md").read_text()
    common = rows(page, "Tags of every run")
    in_data = ["data/config_resolved.yaml", "data/environment.txt"]
    assert_same(rows(page, "Metrics of a model's run"), metrics["model"], "the table of metrics")
    assert_same(rows(page, "Metrics of the summary run"), metrics["summary"], "the table of metrics")
    assert_same(rows(page, "Parameters"), params["model"] | params["summary"], "the table of parameters")
    assert_same(rows(page, "Files of a model's run"), files["model"], "the table of files")
    assert_same(
        rows(page, "Files of the summary run"),
        files["summary"] | {file.path for file in [*files_of_several_datasets(), *files_of_a_log()]},
        "the table of files",
        also=["config.yaml", *in_data],
    )
    assert_same(common, tags["model"] & tags["summary"], "the table of tags")
    assert_same(rows(page, "Tags of a model's run"), tags["model"], "the table of tags", also=common)
    assert_same(rows(page, "Tags of the summary run"), tags["summary"], "the table of tags", also=common)
    data = {key for run in runs for key in json.loads(run.data.tags["evalplugin.provenance"])}
    assert_same(rows(page, "Data for programs"), data, "the table of keys", also=["engine", "git_dirty"])
    for role in of:
        for run in of[role]:
            ours = [key for key in run.data.tags if key.startswith("evalplugin.")]
            assert len(ours) <= 9
            assert len(run.data.metrics) <= 40 or role == "model"
    assert_same(rows(page, "Tags of the experiment"), experiment.tags, "the table of tags")
    version = client.get_model_version_by_alias("shop", "champion")
    assert_same(rows(page, "Tags of a registered version"), version.tags, "the table of tags")


def files_of_a_log() -> Iterator[Item]:
    """Yield what the summary run has only with values of policies by a log."""
    metric, n = "value(estimator=ips)@1", 50
    columns = np.stack([np.arange(n) / n, np.arange(n) / 25, np.zeros(n)], axis=1)
    scores = PerUserScores(Units(np.arange(n)), columns, (metric, "weight@1", "unsupported@1"))
    contest = Contest("log", "feed", "", (ComparedModel("knn", scores),), (metric,), None, 1, "digest")
    yield from OffPolicyFeature().items(filled(whole(), (compare(contest),)))


def files_of_several_datasets() -> Iterator[Item]:
    """Yield what the summary run has only with several datasets."""
    (one,) = comparisons(whole())
    other = replace(one, contest=replace(one.contest, dataset="other", digest="another"))
    yield from RanksFeature().items(filled(whole(), (one, other)))


def test_the_page_on_python_names_every_public_name() -> None:
    page = (REFERENCE / "python.md").read_text()
    documented = set(re.findall(r"^evalplugin\.(\w+)(?: |$)", page, re.MULTILINE))
    assert documented == {*evalplugin.__all__, "testing"} - {"__version__"}
    (members,) = re.findall(r"^evalplugin\.base\.errors (.*)", page, re.MULTILINE)
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    public = {name for name, cls in classes.items() if issubclass(cls, Exception) and name[0] != "_"}
    assert set(members.split()) == public


def test_the_page_on_exit_codes_names_each() -> None:
    page = (REFERENCE / "exit_codes.md").read_text()
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == codes


def test_the_page_on_exit_codes_names_every_environment_variable() -> None:
    prefixes = ("EVALPLUGIN", "MLFLOW", "PG", "NUMBA", "OMP", "MKL", "OPENBLAS", "DATABRICKS", "AWS")
    name = re.compile(rf"[\"']((?:{'|'.join(prefixes)})[A-Z]*_[A-Z_]+)[\"']")
    read = {text for file in (ROOT / "evalplugin").rglob("*.py") for text in name.findall(file.read_text())}
    page = (REFERENCE / "exit_codes.md").read_text()
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", page))
    of_libraries = {"NO_COLOR", *(f"AWS_{name}" for name in (
        "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "PROFILE", "SHARED_CREDENTIALS_FILE", "CONFIG_FILE", "RETRY_MODE",
        "WEB_IDENTITY_TOKEN_FILE", "CONTAINER_CREDENTIALS_RELATIVE_URI", "CONTAINER_CREDENTIALS_FULL_URI",
    ))}  # fmt: skip
    # The latter is an option of deltalake.
    assert named - of_libraries == read - {"MLFLOW_SCHEMES", "AWS_ALLOW_HTTP"}


@pytest.mark.parametrize(
    ("page", "folder"),
    [
        ("explanation/gate", "gate"),
        ("explanation/statistics", "statistics"),
        ("explanation/performance", "benchmarks"),
        ("howto/tuning", "tuning"),
        ("howto/seeds", "seeds"),
    ],
)
def test_the_numbers_of_a_page_are_those_that_were_measured(page: str, folder: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    shown = [line for line in text.splitlines() if re.match(r"\| .*\|.*\d(%|\*|\.| s)", line)]
    measured = "".join(file.read_text() for file in (ROOT / "experiments" / folder).glob("*.md"))
    assert len(shown) >= 2
    assert [line for line in shown if f"{line}\n" not in measured] == []


def test_describe_names_the_page_on_caching(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fails.py").write_text(FAILS)
    assert main(["describe", "model", "fails", "--plugin", "fails.py"]) == 0
    (page,) = re.findall(r"https://evalplugin.github.io/evalplugin/(\S+)\.html", capsys.readouterr().out)
    assert (ROOT / "docs" / f"{page}.md").exists()


SOURCE = "https://github.com/evalplugin/evalplugin/blob/main/"


def source_links(page: str) -> list[tuple[str, str]]:
    """Return text and path of the links to the repository on a page."""
    return re.findall(rf"\[([^\]]+)\]\({SOURCE}([^)#]+)\)", (ROOT / "docs" / page).read_text())


@pytest.mark.slow  # each call is looked at
@pytest.mark.filterwarnings("ignore:_ImportHookChainedLoader:ImportWarning")
@pytest.mark.filterwarnings("ignore::Warning:mlflow")  # of MLflow's own calls
def test_the_walk_through_the_code_is_in_the_order_of_the_calls() -> None:
    links = source_links("explanation/architecture.md")
    walk = [(path, text.strip("`")) for text, path in links if text.startswith("`")]
    assert len(walk) == len(set(walk)) <= 15
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    (config,) = re.findall(r":caption: nightly.yaml\n\n(.*?)```", page, re.DOTALL)
    Path("nightly.yaml").write_text(config)
    rng = np.random.default_rng(0)
    chance = np.arange(1, 61) ** -1.5
    item = np.concatenate([rng.choice(60, 12, replace=False, p=chance / chance.sum()) for _ in range(150)])
    ratings = pd.DataFrame(
        {"user_id": np.arange(150).repeat(12), "item_id": item, "time": rng.permutation(1800)}
    )
    ratings.assign(stars=rng.integers(3, 6, 1800)).to_csv("ratings.csv", index=False)

    files = {str(ROOT / path) for path, _ in walk}
    called: dict[tuple[str, str], None] = {}

    def on_call(frame: Any, event: str, arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename in files and (step := step_of(code)) is not None:
            called.setdefault(step)

    def step_of(code: Any) -> tuple[str, str] | None:
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or a class
            return None
        *owner, name = code.co_qualname.split(".")
        if name == "__post_init__":  # a component is made where the config is checked
            return None
        file = Path(code.co_filename).relative_to(ROOT).as_posix()
        return next(((file, known) for known in (name, *owner) if (file, known) in walk), None)

    sys.setprofile(on_call)
    try:
        assert main(["run", "nightly.yaml"]) == 0
    finally:
        sys.setprofile(None)
    assert [name for _, name in called] == [name for _, name in walk]


PAGES = [
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "evalplugin/README.md")
    ),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        in_repository = re.fullmatch(
            r"https://github\.com/evalplugin/evalplugin/(?:blob|tree)/main/([^#]+)(#.*)?", target
        )
        if in_repository is not None:
            assert (ROOT / in_repository[1]).exists(), target
        elif "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


def anchors(file: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,3} (.*)$", file.read_text(), re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {f"{slug}-{n}" if (n := slugs[:i].count(slug)) else slug for i, slug in enumerate(slugs)}


def test_the_glossary_has_twenty_words_which_the_code_has_too() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| (?!word|-)", page, re.MULTILINE)
    links = source_links("glossary.md")
    assert len(rows) == len(links) <= 20
    for text, path in links:
        name = text.strip("`").split(".")[0]
        assert re.search(rf"^(class|def) {name}\b", (ROOT / path).read_text(), re.MULTILINE), name


SESSIONS = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE))
WORKFLOWS = sorted([*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml"])


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_what_the_repository_configures_is_valid(file: Path) -> None:
    """As far as it can be checked without GitHub: the schema, a job with steps, scripts and sessions that exist."""
    content = yaml.safe_load(file.read_text())
    jobs = content.get("jobs", {})
    assert ("workflows" in file.parts) == bool(jobs)
    if jobs:
        command = ["-m", "check_jsonschema", "-q", "--builtin-schema", "vendor.github-workflows", str(file)]
        subprocess.run([sys.executable, *command], check=True)
    for job in jobs.values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            script = step.get("run", "").split(" ")[0]
            assert not script.startswith(".") or (ROOT / script).exists(), script
            for name in re.findall(r"\bnox -s (\w+)", step.get("run", "")):
                assert name in SESSIONS, name


def test_the_commands_for_contributors_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (row,) = re.findall(r"^\| one of them \|(.*)$", text, re.MULTILINE)
    named = set(re.findall(r"`(?:\.venv/bin/nox -s )?(\w+)`", row)) | {
        name for names in re.findall(r"nox -s ([\w ]+)", text) for name in names.split()
    }
    assert named == SESSIONS
    for path in re.findall(r"`((?:tests|docs|cli|config|data|metrics|models|segments|\.ci)/[\w./]*)`", text):
        assert (ROOT / path).exists() or (ROOT / "evalplugin" / path).exists(), path


def test_every_check_has_a_page_with_its_title_and_texts() -> None:
    folder = ROOT / "docs" / "checks"
    found = (ROOT / "experiments" / "checks" / "found.md").read_text()
    always = re.findall(r"^\| (EV\d+) .* \| 20 of 20 \| 0 of 20 \|$", found, re.MULTILINE)
    *others, last = sorted({*CHECKS} - {*always})
    others = f"{', '.join(others)} and {last}"
    assert f"Each defect but those of {others} was seeded" in (folder / "index.md").read_text()
    assert {page.stem for page in folder.glob("EV*.md")} == set(CHECKS)
    for code, check in CHECKS.items():
        page = (folder / f"{code}.md").read_text()
        assert page.startswith(f"# {code}: {check.title}\n"), code
        assert f"\n<!-- generated: check {code} -->\n" in page, code
        assert check.url.endswith(f"/checks/{code}.html")
