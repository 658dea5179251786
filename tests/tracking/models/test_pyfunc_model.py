"""Models from MLflow in a bake-off: champions, plain pyfuncs and those of other flavours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from bakeoffs import run_bakeoff
from mlflow import MlflowClient
from mlflow.models import ModelSignature
from mlflow.types.schema import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec
from samples import RecordingObserver, small_config, write_config

from evalplugin.base.errors import ConfigError, DataError, ModelError, ParameterError, TrackingError
from evalplugin.cli import main
from evalplugin.data import Candidates, Interactions
from evalplugin.features.config import load
from evalplugin.models import MODELS, recommend
from evalplugin.models.base import ListRequest
from evalplugin.testing import check_recommender
from evalplugin.testing.model import checkerboard
from evalplugin.tracking.models import deployed
from evalplugin.tracking.read.uris import stored_version


def columns(**types: str) -> ModelSignature:
    return ModelSignature(Schema([ColSpec(type, name) for name, type in types.items()]))


USERS, PAIRS = columns(user="long"), columns(user="long", item="long")
TENSOR = ModelSignature(Schema([TensorSpec(np.dtype("int64"), (-1, 2))]))
# Even users like even items, odd users odd ones, as in the contract's data.
OWN_COLOUR = "[sorted(range(1000, 1062, 2), key=lambda i: ((i - 1000) // 2 + u) % 2) for u in data['user']]"
COLOUR_MATCHES = "((data['item'] - 1000) // 2 + data['user']) % 2 == 0"

pytestmark = [
    # Of MLflow, where a model is saved.
    pytest.mark.filterwarnings("ignore:.*(Add type hints|An input example was not)"),
    pytest.mark.usefixtures("no_drawing"),
]


def store_uri() -> str:
    """The store in the working directory; absolute, as MLflow holds a connection to each URI."""
    return f"sqlite:///{Path.cwd()}/mlflow.db"


def saved(predict: str, signature: ModelSignature | None = USERS, name: str = "model") -> str:
    """Save a pyfunc whose ``predict`` returns the value of an expression; return its folder."""
    shutil.rmtree(name, ignore_errors=True)
    Path("serving.py").write_text(
        "import mlflow, numpy as np, pandas as pd\n"
        "class Model(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, context, model_input, params=None):\n"
        "        data = model_input\n"
        "        with open('sizes', 'a') as file:\n"
        "            file.write(f'{len(data)} ')\n"
        f"        return {predict}\n"
        "mlflow.models.set_model(Model())\n"
    )
    mlflow.pyfunc.save_model(name, python_model="serving.py", signature=signature, pip_requirements=[])
    return name


def data() -> Interactions:
    """Users 1 to 3 and items 1 to 4; each user has met the item with the user's number."""
    user, item = np.divmod(np.arange(12), 4)
    return Interactions.from_frame(pd.DataFrame({"user": user + 1, "item": item + 1})).select(user == item)


def lists_of(
    uri: str, n: int = 3, store: str | None = None, **params: Any
) -> tuple[list[list[int]], list[str]]:
    model = MODELS.create("mlflow", {"model": uri, **params})
    train, users = data(), np.arange(3, dtype=np.int32)
    unseen = Candidates("unseen", excluded=train.rows)
    top = recommend(model, ListRequest(train, users, n, unseen, tracking_uri=store))
    return [train.items[row[row >= 0]].tolist() for row in top.item], model.notes[1:]


ALL = "[[4, 3, 2, 1]] * len(data)"


@pytest.mark.parametrize(
    "answer",
    [
        ALL,
        f"np.array({ALL})",
        f"pd.Series({ALL})",
        f"pd.DataFrame({{'items': {ALL}}})",
        f"pd.DataFrame({{'any': {ALL}}})",
        f"pd.DataFrame({{'user': data['user'], 'item': {ALL}}}).iloc[::-1]",
        "pd.DataFrame({'user': data['user'].repeat(4), 'item': [4, 3, 2, 1] * 3, 'rank': [1, 2, 3, 4] * 3})",
        "pd.DataFrame({'user': data['user'].repeat(4), 'item': [1, 2, 3, 4] * 3, 'score': [.1, .2, .3, .4] * 3})",
    ],
)
def test_lists_for_users_have_many_shapes(answer: str) -> None:
    lists, notes = lists_of(saved(answer))
    assert lists == [[4, 3, 2], [4, 3, 1], [4, 2, 1]]
    assert notes == ["left out: 3 listed items that the user has already, of 3 users, such as 1"]


def test_what_a_model_lacks_is_counted() -> None:
    lists, notes = lists_of(saved("[[4, 9], None, [1]]"))
    assert lists == [[4], [], [1]]
    assert notes == [
        "left out: 1 listed item that the data does not have, such as 9",
        "1 of 3 users without a list, such as 2: they score 0",
        "2 of 3 lists with fewer than 3 items, such as that of 1",
    ]
    lists, notes = lists_of(saved("[[], [], []]"))
    assert (lists, notes) == ([[]] * 3, ["3 of 3 users without a list, such as 1: they score 0"])


def test_users_are_asked_for_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployed, "_USERS", 2)
    assert lists_of(saved("[[4, 3, len(data)] for user in data['user']]"))[0] == [[4, 3, 2], [4, 3], [4, 1]]


def test_text_ids_and_other_names_of_columns() -> None:
    train = Interactions.from_frame(pd.DataFrame({"user": ["ann", "bob"], "item": ["a", "b"]}))
    answer = "pd.DataFrame({'who': data['who'], 'what': ['b', 'a'], 'place': [1, 1]})"
    params = {"model": saved(answer, columns(who="string")), "user": "who", "item": "what", "rank": "place"}
    model = MODELS.create("mlflow", params)
    unseen = Candidates("unseen", excluded=train.rows)
    top = recommend(model, ListRequest(train, np.arange(2, dtype=np.int32), 1, unseen))
    assert train.items[top.item[:, 0]].tolist() == ["b", "a"]


def test_parameters_of_a_prediction_are_passed_on() -> None:
    signature = ModelSignature(USERS.inputs, params=ParamSchema([ParamSpec("n", "long", 1)]))
    folder = saved("[[4, 3, 2][:params['n']]] * len(data)", signature)
    assert lists_of(folder)[0] == [[4], [4], [4]]
    assert lists_of(folder, inference={"n": 2})[0] == [[4, 3], [4, 3], [4]]


def test_pairs_are_scored_in_blocks_and_candidates_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployed, "_PAIRS", 4)
    for answer in ("-data['item']", "[-i for i in data['item']]", "pd.DataFrame({'x': -data['item']})",
                   "pd.DataFrame({'score': -data['item'], 'other': 0})", "-data[['item']].to_numpy()"):  # fmt: skip
        folder = saved(answer, PAIRS)
        assert lists_of(folder)[0] == [[2, 3, 4], [1, 3, 4], [1, 2, 4]]
    assert set(Path("sizes").read_text().split()) == {"3"}  # of one user, without the item that was met


def test_pairs_of_one_user_are_split_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployed, "_PAIRS", 2)
    folder = saved("data['item']", PAIRS)
    assert lists_of(folder)[0] == [[4, 3, 2], [4, 3, 1], [4, 2, 1]]
    assert Path("sizes").read_text().split() == ["2", "1"] * 3


def test_items_that_a_model_never_recommends_are_not_listed() -> None:
    lists, notes = lists_of(saved("data['item'].astype(float).where(data['item'] < 3, -np.inf)", PAIRS))
    assert lists == [[2], [1], [2, 1]]
    assert notes[0] == "3 of 3 lists with fewer than 3 items, such as that of 1"


def test_classes_in_place_of_scores_are_noticed() -> None:
    _, notes = lists_of(saved("(data['item'] > 2).astype(int)", PAIRS))
    assert notes == [
        "the model has only 2 different scores, and items with the same score are listed in the order of "
        "`recommend.ties`: does it answer with classes in place of scores?"
    ]


@pytest.mark.parametrize("name", ["array", "table"])
def test_a_model_of_another_flavour(name: str) -> None:
    from sklearn.linear_model import LinearRegression

    pairs = pd.DataFrame({"user": [1, 2, 3, 3], "item": [1, 2, 3, 4]})
    given = pairs if name == "table" else pairs.to_numpy()
    fitted = LinearRegression().fit(given, [1.0, 2.0, 3.0, 5.0])
    signature = PAIRS if name == "table" else TENSOR
    mlflow.sklearn.save_model(fitted, "model", signature=signature, pip_requirements=[])
    takes = {} if name == "table" else {"takes": "pairs"}
    assert lists_of("model", **takes)[0] == [[4, 3, 2], [4, 3, 1], [4, 2, 1]]


def test_a_model_with_a_type_hint_takes_users() -> None:
    Path("serving.py").write_text(
        "import mlflow\n"
        "class Model(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, model_input: list[int]) -> list[list[int]]:\n"
        "        return [[4, 3, 2] for user in model_input]\n"
        "mlflow.models.set_model(Model())\n"
    )
    mlflow.pyfunc.save_model("model", python_model="serving.py", pip_requirements=[])
    assert lists_of("model")[0] == [[4, 3, 2], [4, 3], [4, 2]]


@pytest.mark.parametrize(
    ("signature", "params", "message"),
    [
        (None, {}, "without a signature with names of columns: say what it takes, by takes: users"),
        (columns(customer="long"), {},
         "takes the columns 'customer', and none of them is 'user': name the column of user ids by user: NAME"),
        (USERS, {"takes": "pairs"}, "none of them is 'item': name the column of item ids"),
        (TENSOR, {}, "without a signature with names of columns: say what it takes"),
    ],
)  # fmt: skip
def test_a_model_that_takes_something_else_is_refused(signature, params, message):
    with pytest.raises(ModelError, match=message):
        lists_of(saved(ALL, signature), **params)


@pytest.mark.parametrize(
    ("signature", "params", "message"),
    [
        (PAIRS, {"item": "product"}, "missing inputs"),
        (columns(user="string"), {}, "convert int64 to <U0"),
        (TENSOR, {"takes": "users"}, "does not match expected shape"),
        (columns(user="long", age="double"), {}, "missing inputs"),
    ],
)
def test_mlflow_refuses_input_that_the_signature_does_not_have(signature, params, message):
    with pytest.raises(mlflow.exceptions.MlflowException, match=message):
        lists_of(saved(ALL, signature), **params)


@pytest.mark.parametrize(
    ("answer", "came"),
    [
        ("7", "3 users with int; allowed: a list of items for each user"),
        ("[1, 2, 3]", "list of 3 values, and the list of one is 1; allowed"),
        ("[[1]]", "list of 1 values; allowed"),
        ("{'items': [[1]] * 3}", "dict; allowed"),
        ("np.zeros((3, 2, 2))", r"an array of float64 of shape \(3, 2, 2\); allowed"),
        ("pd.DataFrame({'a': [1], 'b': [2]})", "a table of 1 rows with the columns 'a', 'b'; allowed"),
        ("data.assign(item=1)", "table of 3 rows with the columns 'user', 'item'; .*'user', 'item' and"),
        (
            "pd.DataFrame({'items': [[1]] * 3, 'user': [1, 2, 77]})",
            "answers for user 77, for whom it was not",
        ),
    ],
)
def test_lists_of_another_shape_are_one_clear_error(answer: str, came: str) -> None:
    with pytest.raises(ModelError, match=came):
        lists_of(saved(answer))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("[[1, 'a'], [2], [3]]", "in the list of user 1 is 'a' .*item ids must be integers or text, all of"),
        ("[['a']] * 3", "item ids are text in the lists .* but integers in the data"),
    ],
)
def test_bad_lists_are_refused(answer: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        lists_of(saved(answer))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("data", "answers 9 pairs with a table of 9 rows with the columns 'user', 'item'; allowed: as many"),
        ("data['item'][1:]", "answers 9 pairs with Series of 8 values"),
        ("np.ones((len(data), 2))", r"an array of float64 of shape \(9, 2\)"),
        ("data['item'].astype(str)", "Series of 9 values"),
        ("data['item'].where(data['item'] != 3)", "scores item 3 for user 1 with nan; a score is a number"),
    ],
)
def test_scores_of_another_shape_are_one_clear_error(answer: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        lists_of(saved(answer, PAIRS))


def test_a_package_that_a_model_needs_is_named() -> None:
    folder = saved(ALL)
    code = Path(folder) / "serving.py"
    code.write_text("import no_such_package\n" + code.read_text())
    with pytest.raises(ModelError, match="No module named 'no_such_package'; install what it needs"):
        lists_of(folder)


def test_versions_of_packages_that_differ_are_noted() -> None:
    folder = saved(ALL)
    Path(folder, "requirements.txt").write_text("numpy==1.0\n")
    model = MODELS.create("mlflow", {"model": folder})
    train = data()
    recommend(model, ListRequest(train, np.arange(3, dtype=np.int32), 2, Candidates("all")))
    assert "while it was loaded: Detected one or more mismatches" in model.notes[1]
    assert "numpy==1.0" in model.notes[1]


@pytest.mark.parametrize(("answer", "signature"), [(OWN_COLOUR, USERS), (f"({COLOUR_MATCHES}) * 1.0", PAIRS)])
def test_the_contract_holds(answer: str, signature: ModelSignature) -> None:
    assert len(checkerboard().items) == 31
    check_recommender("mlflow", model=saved(answer, signature))


# Before anything is read or fitted


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("models:/shop", "must look like models:/NAME@ALIAS or models:/NAME/3"),
        ("models:/shop@", "does not name a model version"),
        ("runs:/0123abc", "must look like runs:/RUN_ID/PATH"),
        ("model:/shop@champion", "'model' is not a kind of URI that can be read; did you mean 'models'"),
        ("nowhere", "nowhere is not a model of MLflow: it has no file MLmodel"),
    ],
)
def test_the_form_of_a_uri_is_checked_with_the_config(model: str, message: str) -> None:
    models = ["random", {"name": "deployed", "type": "mlflow", "params": {"model": model}}]
    write_config(small_config(models=models))
    with pytest.raises(ConfigError, match=rf"shop.yaml:\d+:\d+: models\[1\].params.model: .*{message}"):
        load(Path("shop.yaml"))


def test_one_order_of_lists() -> None:
    with pytest.raises(ParameterError, match="lists are ordered by rank or by score"):
        MODELS.create("mlflow", {"model": "m", "rank": "a", "score": "b"})


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_model_that_is_not_there_is_an_error_with_its_place(options, capsys):
    models = ["random", {"name": "deployed", "type": "mlflow", "params": {"model": "models:/shop@champion"}}]
    write_config(small_config(models=models, tracking={"uri": store_uri()}))
    assert main(["run", "shop.yaml", *options]) == 2
    err = capsys.readouterr().err
    assert "shop.yaml:" in err
    assert "models[1].params.model: " in err
    assert "cannot look up models:/shop@champion: Registered Model with name=shop not found" in err
    assert not MlflowClient(store_uri()).get_experiment_by_name("shop")


# In a bake-off


@pytest.fixture
def champion(store: Path) -> str:
    """The URI of a model that a bake-off has registered: popularity, on the data of ``small_config``."""
    gate = {"gate": {"min_users": 20, "confidence": 0.6}, "register": {"name": "shop"}}
    run_bakeoff(load(small_config(**gate)), tracking_uri=store_uri())
    return "models:/shop@champion"


def evaluated(*models: Any, **changes: Any) -> Any:
    """Run a bake-off of models from MLflow; return their results, and the lines that were reported."""
    said = RecordingObserver()
    named = [
        {"name": f"m{number}", "type": "mlflow", "params": {"model": uri}}
        for number, uri in enumerate(models)
    ]
    config = small_config(models=["random", *named], experiment="deployed", **changes)
    outcome = run_bakeoff(load(config), tracking_uri=store_uri(), observer=said)
    return outcome.models[1:], said.lines


@pytest.mark.slow
def test_a_registered_champion_is_evaluated_until_its_alias_moves(champion: str) -> None:
    ((found, by_number), lines) = evaluated(champion, "models:/shop/1")
    assert found.error is None
    client = MlflowClient(store_uri())
    version = client.get_model_version("shop", "1")
    made = f", popularity of the bake-off {version.tags['evalplugin.bakeoff']}"
    assert found.notes[0].startswith(
        f"evaluated is version 1 of shop{made}, made from all interactions of tiny, digest "
    )
    assert by_number.per_user.means == found.per_user.means
    files = mlflow.artifacts.download_artifacts(version.source, tracking_uri=store_uri())
    answers = mlflow.pyfunc.load_model(files).predict(pd.DataFrame({"user": found.per_user.users}))
    listed = found.top_n.to_pandas().groupby("user")["item"].apply(list)
    answered = zip(answers["user"], answers["items"], strict=True)
    assert listed.to_dict() == {user: items for user, items in answered if items}
    # It was fitted on what is held out here.
    assert any("reads the registered model models:/shop@champion" in line for line in lines)

    client.create_model_version("shop", version.source, run_id=version.run_id)
    client.set_registered_model_alias("shop", "champion", "2")
    ((moved, by_number), lines) = evaluated(champion, "models:/shop/1")
    assert any("2 of 3 tasks are in the store" in line for line in lines)
    assert moved.notes[0] == found.notes[0].replace(f"version 1 of shop{made}", "version 2 of shop")
    assert by_number.notes[0] == found.notes[0]


@pytest.mark.slow
def test_a_registered_champion_is_evaluated_in_worker_processes(champion: str) -> None:
    ((found, by_number), _) = evaluated(champion, "models:/shop/1", workers=2)
    assert found.error is None
    assert by_number.per_user.means == found.per_user.means


def test_models_of_runs_and_of_other_stores(uri: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow.set_tracking_uri(store_uri())
    try:
        with mlflow.start_run() as run:
            logged = mlflow.pyfunc.log_model(
                name="model", python_model=_code("[[4, 3]] * len(data)"), signature=USERS, pip_requirements=[]
            )
    finally:
        mlflow.set_tracking_uri(None)
    # The store of the bake-off, whatever the environment names for the code of plugins.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    expected = lists_of(saved("[[4, 3]] * len(data)"))
    for logged_as in (f"runs:/{run.info.run_id}/model", f"models:/{logged.model_id}"):
        assert lists_of(logged_as, store=store_uri()) == expected
        assert stored_version(logged_as, store_uri()) == stored_version(logged_as, store_uri())
        with pytest.raises(TrackingError, match="not found"):
            lists_of(logged_as)
    with pytest.raises(TrackingError, match="there is no tracking store"):
        lists_of("models:/shop@champion", store="sqlite:///absent.db")


def _code(predict: str) -> str:
    saved(predict)
    return "serving.py"


def test_a_wrong_answer_fails_its_own_run(store: Path) -> None:
    ((bad, good), _) = evaluated(
        str(Path(saved("7", name="bad")).absolute()), saved("[[5, 7, 9]] * len(data)")
    )
    assert bad.failure is not None
    assert "ModelError: the model " in bad.failure
    assert "answers 60 users with int; allowed: a list of items for each user" in bad.failure
    assert good.error is None
