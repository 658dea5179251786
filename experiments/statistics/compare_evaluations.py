"""Two evaluation runs of MLflow, compared by mlflow.genai.compare_evaluations (MLflow 3.18 and newer) and by ours.

    python experiments/statistics/compare_evaluations.py

It prints the tables of docs/howto/compare_scores.md; runs go to a temporary folder.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import mlflow

import evalplugin

QUESTIONS = [f"question {number}" for number in range(120)]
MODELS = {"small": (0.6, 2.0), "large": (0.75, 2.4)}  # share of right answers, mean of points


def main() -> None:
    """Print what both say of the same rows."""
    with tempfile.TemporaryDirectory() as folder:
        uri = f"sqlite:///{Path(folder, 'mlflow.db')}"
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment(
            experiment_id=mlflow.create_experiment("answers", Path(folder, "files").as_uri())
        )
        runs = {name: evaluate(name, *expected) for name, expected in MODELS.items()}
        theirs = mlflow.genai.compare_evaluations(
            candidate_run_id=runs["large"], baseline_run_id=runs["small"]
        )
        ours = evalplugin.compare_scores(
            runs=[*runs.values()],
            tracking_uri=uri,
            baseline="small",
            intervals="bootstrap",
            tests=["wilcoxon", "t"],
        )
    print(f"MLflow {mlflow.__version__}")
    columns = [
        "scorer",
        "n_paired",
        "diff",
        "ci_low",
        "ci_high",
        "effect_size",
        "method",
        "p_value",
        "t_test_p_value",
    ]
    print(theirs.summary()[columns].to_string(index=False))
    columns = ["metric", "pairs", "difference", "diff_low", "diff_high", "effect", "p", "p_wilcoxon", "p_t"]
    frame = ours.to_frame()
    print(frame[frame["model"] == "large"][columns].to_string(index=False))


def evaluate(name: str, share: float, mean: float) -> str:
    """Evaluate a model whose answers are drawn; return the id of the run."""
    drawn = random.Random(name)
    answers = {
        question: {"right": drawn.random() < share, "points": drawn.gauss(mean, 1.0)}
        for question in QUESTIONS
    }
    data = [{"inputs": {"question": question}} for question in QUESTIONS]
    with mlflow.start_run(run_name=name) as run:
        mlflow.genai.evaluate(
            data=data, predict_fn=lambda question: answers[question], scorers=[correct, points]
        )
    run_id: str = run.info.run_id
    return run_id


@mlflow.genai.scorer
def correct(outputs: dict[str, float]) -> bool:
    """Return whether the answer is right."""
    return bool(outputs["right"])


@mlflow.genai.scorer
def points(outputs: dict[str, float]) -> float:
    """Return the points of the answer."""
    return outputs["points"]


if __name__ == "__main__":
    main()
