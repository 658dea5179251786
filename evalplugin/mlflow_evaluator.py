"""The MLflow evaluator ``evalplugin``: rankings and recommendations by our metrics.

Use it as ``mlflow.models.evaluate(..., evaluators="evalplugin")``. MLflow imports this module to find its evaluators:
every import of evalplugin is inside a function.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from mlflow.models.evaluation.base import ModelEvaluator

if TYPE_CHECKING:
    from mlflow.data.evaluation_dataset import EvaluationDataset
    from mlflow.models import EvaluationResult
    from mlflow.models.evaluation.base import EvaluationArtifact

    from evalplugin.lists.evaluation import Evaluated, Evaluation

MODEL_TYPES = ("ranker", "recommender")  # MLflow's own evaluators take neither


class RankingEvaluator(ModelEvaluator):
    """Evaluator of lists of items, or of scored pairs of user and item; it logs the contents of a model's run.

    **One row a user** (or query): the predictions column holds a list of items, best first; the targets column
    the relevant items, or a dict of their ratings by item. **One row a scored pair**, where ``evaluator_config``
    names the ``item`` column: the predictions column holds scores, the targets column ratings; every row is a
    candidate of its user. A model gets the table without the targets column and returns the predictions.

    Keys of ``evaluator_config``, all of them optional:

    - ``metrics``: names such as ``ndcg@10``; without: ndcg, recall, precision and hit at 10, and rr;
    - ``threshold``: ratings from it on are relevant; without: ratings above 0;
    - ``user``: the column of users; without: ``user`` if there is one, or else each row is a user;
    - ``query``: in place of ``user``, the column of queries of sessions, with ids ``SESSION:NUMBER``: intervals
      take the queries of a session together;
    - ``item``: the column of items of scored pairs;
    - ``train``: a DataFrame of user, item and perhaps rating, for metrics that need it;
    - ``name``, ``dataset``: names of model and data; without: the names of the run and of MLflow's dataset.

    A likely mistake is a UserWarning: explicit ratings without a threshold (or with one that all reach), and
    targets that the train data holds too.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Mapping[str, Any], **kwargs: Any) -> bool:
        """Return whether a model ranks."""
        return model_type in MODEL_TYPES

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: EvaluationDataset,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        extra_metrics: Any = None,
        custom_artifacts: Any = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Return the means and the artifacts that are logged into the run; see the class.

        Raises:
            EvalpluginError: Options, columns or values that break a rule; a run that holds results already.
        """
        from mlflow.models import EvaluationResult

        from evalplugin.execution.observer import warn_caller
        from evalplugin.lists.evaluation import Evaluation, EvaluatorOptions
        from evalplugin.tracking.write.lists import ScoredLists, log_into_run, open_run

        _refuse(extra_metrics, custom_artifacts)
        options = EvaluatorOptions.of(evaluator_config)
        evaluation = Evaluation.of(options, _features(dataset), _targets(dataset))
        run = open_run(run_id, evaluation.specs)
        predicted = _predictions(dataset, model, predictions)
        evaluated = evaluation.score(predicted)
        for warning in _warnings(evaluation, evaluated):
            warn_caller(f"{options.dataset or dataset.name}: {warning}")
        data = {"targets": evaluation.targets.name} | options.columns()
        names = [spec.name for spec in evaluation.specs]
        lists = ScoredLists(
            name=options.name or run.info.run_name,
            scores=evaluated.scores,
            metrics=evaluation.specs,
            relevance=options.relevance,
            folds=[(evaluated.train, evaluated.truth)],
            asked={"metrics": names, "threshold": options.threshold, **data},
            origin="mlflow.evaluate",
            dataset=options.dataset or dataset.name,
            data=data,
            data_type="mlflow",
            type="lists" if model is None else "mlflow model",
            params={"predictions": predicted.name} | ({} if model_id is None else {"model_id": model_id}),
            candidates=None if options.item is None else "judged",
            lists=evaluated.lists,
        )
        with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
            metrics = log_into_run(lists, run, Path(folder))
            artifacts = _artifacts(Path(folder), run_id, evaluated)
        return EvaluationResult(metrics, artifacts, run_id)  # type: ignore[no-untyped-call]


def _warnings(evaluation: Evaluation, evaluated: Evaluated) -> Iterator[str]:
    """Yield likely mistakes: a threshold that does not suit the ratings, targets in the train data."""
    from evalplugin.features.checks.settings import relevance_warnings

    truth, train = evaluated.truth, evaluated.train
    if truth.rating_scale[0] > 0:  # from 0 on they are grades of relevance, and 0 is not relevant
        relevance = evaluation.options.relevance
        for text in relevance_warnings(evaluation.specs, relevance, truth, setting="threshold"):
            yield f"EV114 {text}"
    if train is not None:
        targets, known = (
            pd.MultiIndex.from_arrays([part.users[part.user], part.items[part.item]])
            for part in (truth.select(truth.rating > 0), train)
        )
        if seen := int(targets.isin(known).sum()):
            yield (
                f"{seen:,} of {len(targets):,} relevant targets are in the train data too: a model that was fitted on "
                f"it knows them, so that its scores may be too high (leakage)"
            )


def _refuse(extra_metrics: Any, custom_artifacts: Any) -> None:
    from evalplugin.base.errors import DataError

    if extra_metrics:
        raise DataError(
            "extra_metrics are not for the evaluator 'evalplugin': name metrics in evaluator_config, as in "
            "{'metrics': ['ndcg@10']}, and register those of your own with evalplugin.metric"
        )
    if custom_artifacts:
        raise DataError(
            "custom_artifacts are not for the evaluator 'evalplugin': log files of your own with mlflow.log_artifact"
        )


def _features(dataset: EvaluationDataset) -> pd.DataFrame:
    from evalplugin.base.errors import DataError

    if not isinstance(dataset.features_data, pd.DataFrame):
        raise DataError(
            f"data must be a pandas DataFrame, or an MLflow dataset that is made of one, not "
            f"{type(dataset.features_data).__name__}"
        )
    return dataset.features_data


def _targets(dataset: EvaluationDataset) -> pd.Series[Any]:
    from evalplugin.base.errors import DataError

    if dataset.labels_data is None:
        raise DataError("targets must name the column of relevant items, or of the ratings of scored pairs")
    return pd.Series(list(dataset.labels_data), name=dataset.targets_name or "targets")


def _predictions(dataset: EvaluationDataset, model: Any, column: str | None) -> pd.Series[Any]:
    """Return the predictions of the table, or those that the model makes for it."""
    from evalplugin.base.errors import DataError
    from evalplugin.lists.evaluation import column_of

    if model is None:
        if dataset.predictions_data is None:
            raise DataError("there is no model, so predictions must name the column of lists or scores")
        return pd.Series(list(dataset.predictions_data), name=dataset.predictions_name)
    made = model.predict(dataset.features_data.copy())
    if isinstance(made, pd.DataFrame):
        if column is None and len(made.columns) > 1:
            names = ", ".join(map(str, made.columns))
            raise DataError(f"the model returns several columns: predictions must name one of {names}")
        name = str(made.columns[0]) if column is None else column
        return column_of(made, name, "predictions", "the model's output")
    if column is not None:
        raise DataError(
            f"predictions={column!r} names a column of the model's output, but it returns {type(made).__name__}"
        )
    if not isinstance(made, list | np.ndarray | pd.Series):
        raise DataError(
            f"the model must return a list, an array, a Series or a DataFrame with one value a row of the data, "
            f"not {type(made).__name__}"
        )
    return pd.Series(list(made), name="predictions")


def _artifacts(folder: Path, run_id: str, evaluated: Evaluated) -> dict[str, EvaluationArtifact]:
    """Return the scores, the lists and the pictures among a run's files, with their content in memory."""
    from mlflow.models.evaluation import artifacts as kinds
    from PIL import Image

    from evalplugin.tracking.write.artifacts import TABLE

    def artifact(kind: Any, path: str, content: Any) -> EvaluationArtifact:
        made: EvaluationArtifact = kind(f"runs:/{run_id}/{path}", content)
        return made

    table = json.loads((folder / TABLE).read_text(encoding="utf-8"))
    per_user, top_n = evaluated.scores.to_frame().reset_index(), evaluated.lists.table().to_pandas()
    artifacts = {
        # MLflow's EvaluationResult.tables has this one too.
        "per_user_table": artifact(kinds.JsonEvaluationArtifact, TABLE, table),
        "per_user": artifact(kinds.ParquetEvaluationArtifact, "data/per_user.parquet", per_user),
        "top_n": artifact(kinds.ParquetEvaluationArtifact, "data/top_n.parquet", top_n),
    }
    for path in sorted(folder.glob("*.png")):
        with Image.open(path) as picture:
            picture.load()
        artifacts[path.stem] = artifact(kinds.ImageEvaluationArtifact, path.name, picture)
    return artifacts
