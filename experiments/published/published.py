"""Run the bake-offs of published tables again, and print what was published beside what is measured.

``python published.py NAME ...`` runs ``NAME.yaml`` of this folder; ``--write`` puts the tables into ``values.md``.
The files of the data are below ``published/`` of EVALPLUGIN_DATA_HOME, with the checksums of the YAML files. The exit
code is 0 only if each value agrees to the printed digit, or differs for a reason that was measured.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import evalplugin
from evalplugin.metrics import parse

HERE = Path(__file__).resolve().parent
TABLES = sorted(file.stem for file in HERE.glob("*.yaml"))


def reproduce(name: str, home: Path) -> tuple[str, bool]:
    """Return a section of Markdown with the values of a table, and whether each agrees or is explained."""
    table = yaml.safe_load((HERE / f"{name}.yaml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        for entry in table["data"]:
            convert(checked(home / "published" / entry["file"], entry), Path(folder), entry.get("convert"))
        text = yaml.safe_dump(table["config"]).replace("{data}", str(home / "published"))
        config = {"experiment": f"published {name}", **yaml.safe_load(text.replace("{converted}", folder))}
        outcome = evalplugin.run(config, tracking_uri=f"sqlite:///{folder}/mlflow.db")
    measured_models = {model.model: model for model in outcome.comparisons[0].models}
    rows, verdicts = [], []
    for model, printed in table["values"].items():
        reason = table.get("differences", {}).get(model, {}).get("within", 0)
        for metric, published in zip(table["metrics"], printed.split(), strict=True):
            key, found = parse(metric).name, measured_models[model]
            scale = table.get("scales", {}).get(metric, {"name": metric, "times": 1})
            means = [found.cells[key].mean, *(seed[key] for seed in found.seed_means)]
            measured, *seeds = [scale.get("plus", 0) + scale["times"] * mean for mean in means]
            within = reason.get(metric, 0) if isinstance(reason, dict) else reason
            verdict, digits = verdict_of(published, measured, seeds, within)
            rows.append((model, f"`{scale['name']}`", published, f"{measured:.{digits}f}", verdict))
            verdicts.append(verdict)
    return section(name, table, rows), not any(verdict.startswith("DIFFERS") for verdict in verdicts)


def checked(path: Path, entry: dict[str, Any]) -> Path:
    """Return the path of a file of the data, if its content is that of the table."""
    origin = entry.get("url", entry.get("origin"))
    if not path.is_file():
        sys.exit(f"{path} is missing: get it from {origin}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
        sys.exit(f"{path}: its SHA-256 is not {entry['sha256']}: get it from {origin}")
    return path


def convert(path: Path, folder: Path, kind: str | None) -> None:
    """Write the train pairs, truth and candidates of a file of Collaborative Memory Networks (``cmn``) as tables."""
    if kind != "cmn":
        return
    # Pickles run code; this file is known by its checksum.
    with np.load(path, allow_pickle=True) as content:
        train, held_out = content["train_data"], content["test_data"].item()
    truth = [(user, int(item)) for user, (item, _) in held_out.items()]
    others = [(user, other) for user, (_, items) in held_out.items() for other in items]
    for part, pairs in (("train", train), ("test", truth), ("pool", truth + others)):
        np.savetxt(folder / f"{part}.csv", pairs, fmt="%d", delimiter=",", header="user,item", comments="")


def verdict_of(published: str, measured: float, seeds: list[float], within: float) -> tuple[str, int]:
    """Return how a measured value compares with a printed one, and the number of digits to show it with.

    ``within``: the largest difference that the table has a reason for.
    """
    if published == "-":
        return "no published value", 5
    digits = len(published.partition(".")[2])
    # A printed digit stands for half a unit in its place to both sides; the margin is of binary fractions.
    half, difference = (0.5 + 1e-6) * 10.0**-digits, measured - float(published)
    if seeds and min(seeds) - half <= float(published) <= max(seeds) + half:
        return f"within {len(seeds)} seeds, {min(seeds):.{digits}f} to {max(seeds):.{digits}f}", digits + 1
    if abs(difference) <= half:
        return "agrees", digits + 1
    explained = abs(difference) <= within
    text = (
        f"differs by {difference:+.{digits + 1}f}, explained" if explained else f"DIFFERS by {difference:+g}"
    )
    return text, digits + 1


def section(name: str, table: dict[str, Any], rows: list[tuple[str, ...]]) -> str:
    """Return the section of a table in ``values.md``."""
    source = table["source"]
    lines = [f"## {name}", "", f"{table['title']}.", ""]
    lines += [f"**Source:** {source['title']} [{source['place']}]({source['url']})", ""]
    lines += ["| model | metric | published | measured |  |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    models: dict[str, list[str]] = {}
    for model, difference in table.get("differences", {}).items():
        models.setdefault(difference["reason"], []).append(model)
    lines += ["", *(f"- {', '.join(names)}: {reason}" for reason, names in models.items())]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Reproduce the tables that are named; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=TABLES, metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--write", action="store_true", help="put the tables into values.md")
    asked = parser.parse_args()
    if not (home := os.environ.get("EVALPLUGIN_DATA_HOME")):
        parser.error("EVALPLUGIN_DATA_HOME names no folder with the data")
    page, agree = HERE / "values.md", True
    for name in asked.names:
        text, agrees = reproduce(name, Path(home).resolve())
        print(text)
        agree = agree and agrees
        if asked.write:
            head, *sections = re.split("(?m)^(?=## )", page.read_text())
            known = {part.split()[1]: part for part in sections} | {name: f"{text}\n"}
            page.write_text(head + "".join(known[key] for key in sorted(known)).rstrip() + "\n")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
