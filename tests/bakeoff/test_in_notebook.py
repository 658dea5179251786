"""A bake-off in a real notebook: progress while it runs, each warning once, and then the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

CELLS = [
    "import evalplugin",
    """\
bakeoff = evalplugin.run({
    "experiment": "notebook",
    "datasets": [{"name": "tiny", "type": "synthetic", "n_users": 300, "n_items": 80, "n_interactions": 6000}],
    "split": {"type": "last_n", "n": 2},
    "metrics": ["ndcg@10"],
    "models": ["random", "popularity"],
    "compare": {"baseline": "random"},
})
bakeoff""",
]


@pytest.mark.slow
def test_a_notebook_shows_warnings_once_and_the_verdict_first(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}, timeout=300).execute()
    outputs = notebook.cells[1].outputs
    shown = [output["data"]["text/html"] for output in outputs if "data" in output]
    assert shown[0] == ""  # the line of progress, which is empty at the end
    warnings = [text for text in shown if text.startswith("<div><b>Warning</b>")]
    assert len(warnings) == len(set(warnings)) >= 1
    assert "popularity is the best: " in shown[-1][: shown[-1].index("<table")]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "UserWarning" not in printed
