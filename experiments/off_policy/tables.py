"""Tables of what ``study.py`` has simulated: ``python tables.py --store FOLDER --seeds 0 --to confirmed.md``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from doubts import DESIGNED, OF_ESTIMATORS, PROPOSED, Rules

HERE = Path(__file__).parent
KEY = ["seed", "round", "positions", "decisions", "items", "logging", "rewards", "users"]
OWN_WEIGHTS = (
    "iips",
    "iips, conditional",
    "rips",
    "clipped10",
    "clipped50",
)  # estimators with weights of another kind
WEIGHTED = ("ips", "snips", "dr", "sndr", "rips", "iips")
LEAST = 100  # logs of a cell that is judged
Flags = npt.NDArray[np.bool_]


def read(store: Path, seeds: Sequence[int]) -> dict[str, pd.DataFrame]:
    """Return the tables of all rounds; values, pairs and contests have what rules ask of their policies."""
    files = [f for f in sorted(store.glob("*.pkl")) if int(f.name.split("-")[0]) in seeds]
    read = [pd.read_pickle(file) for file in files]
    tables = {part: pd.concat([r[part] for r in read], ignore_index=True) for part in read[0]}
    for table in tables.values():
        table["log"] = table.groupby(KEY, sort=False).ngroup()
    values, policies = tables["values"], tables["policies"].drop(columns=[*KEY, "n"])
    logs = tables["policies"].drop_duplicates("log").set_index(KEY)["log"]
    for part in ("values", "pairs", "contests"):
        table = tables[part]
        table["log"] = logs.reindex(pd.MultiIndex.from_frame(table[KEY])).to_numpy()
    values["weights"] = values["estimator"].where(values["estimator"].isin(OWN_WEIGHTS), "slate")
    tables["values"] = values.merge(policies, on=["log", "policy", "weights"], how="left")
    tables["values"]["off"] = half_widths(tables["values"])
    tables["values"]["holds"] = (values["low"] <= values["truth"]) & (values["truth"] <= values["high"])
    return tables


def half_widths(values: pd.DataFrame) -> Any:
    """Return how far 1 is from the mean weight, in half-widths of its 95 % interval on that side."""
    side = np.where(values["w"] < 1, values["w_high"] - values["w"], values["w"] - values["w_low"])
    return np.where(np.abs(values["w"] - 1) < 1e-9, 0, (1 - values["w"]) / np.where(side > 0, side, np.nan))


def told(values: pd.DataFrame, rules: Rules) -> Flags:
    """Return which values are in no doubt and have an interval."""
    doubted = np.zeros(len(values), dtype=bool)
    for rule in rules.values():
        doubted |= np.asarray(rule(values), dtype=bool)
    if rules is PROPOSED:
        for estimator, rule in OF_ESTIMATORS.items():
            doubted |= (values["estimator"] == estimator).to_numpy() & np.asarray(rule(values), dtype=bool)
    return ~doubted & np.isfinite(values["low"].to_numpy())


def rate(hits: Any, logs: Any) -> tuple[float, float, int]:
    """Return a share, its standard error and the number of logs; values of one log depend on each other."""
    hits, logs = np.asarray(hits, dtype=float), np.asarray(logs)
    if not len(hits):
        return np.nan, np.nan, 0
    _, code = np.unique(logs, return_inverse=True)
    share = hits.mean()
    residual = np.bincount(code, weights=hits - share)
    return share, float(np.sqrt((residual**2).sum()) / len(hits)), int(code.max()) + 1


def main() -> None:
    """Write one file of results/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--to", required=True)
    asked = parser.parse_args()
    tables = read(asked.store, asked.seeds)
    logs = tables["policies"]["log"].nunique()
    seeds = ", ".join(map(str, asked.seeds))
    text = f"{logs:,} simulated logs (seeds {seeds}). Standard errors are over logs.\n\n" + "\n".join(
        sections(tables)
    )
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / asked.to).write_text(text)


def sections(tables: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Yield the parts of the file."""
    values = tables["values"]
    values = values[values["policy"] != "logging"]
    yield "## Coverage of 95 % intervals, by estimator\n"
    yield table(
        ["positions", "estimator", "rules", "told, %", "hold, %", "logs", "in doubt: hold, %"],
        estimators(values),
    )
    weighted = values[values["estimator"].isin(WEIGHTED)]
    sure = weighted[told(weighted, PROPOSED)]
    heads = ["rules", "cells", "share of cells, %", "values told, %", "hold, %", "logs"]
    yield "## Coverage of what is told, by the share of a cell's logs with a told value\n"
    yield table(heads, shares(weighted, tables["policies"]))
    yield "## Coverage of what is told by the proposed rules, by kind of log (ips, snips, dr, sndr, rips, iips)\n"
    heads = ["positions", "by", "", "hold, %", "below the truth, %", "above, %", "logs"]
    yield table(heads, kinds(sure))
    yield f"### Cells (decisions x logging x rewards) of at least {LEAST} logs with a told value\n"
    yield table(["positions", "decisions", "logging", "rewards", "hold, %", "logs"], cells(sure))
    yield "## Coverage by what each rule looks at, where no other proposed rule doubts\n"
    yield table(["quantity", "from", "to", "hold, %", "below the truth, %", "logs"], quantities(weighted))
    yield "## Paired differences of policies of one value: permutation test at 5 %\n"
    yield table(["pair", "estimator", "rules", "told, %", "called different, %", "logs"], pairs(tables))
    yield "## May be best: the best of six policies is kept\n"
    yield table(
        ["estimator", "told where", "told, %", "kept, %", "a single one left, %", "logs"], contests(tables)
    )


def estimators(values: pd.DataFrame) -> Iterator[list[Any]]:
    """Yield rows of coverage by estimator."""
    for (positions, estimator), group in values.groupby(["positions", "estimator"]):
        for name, rules in (("designed", DESIGNED), ("proposed", PROPOSED)):
            sure = told(group, rules)
            known = np.isfinite(group["low"].to_numpy())
            share, error, logs = rate(group["holds"][sure], group["log"][sure])
            rest, rest_error, _ = rate(group["holds"][~sure & known], group["log"][~sure & known])
            yield [positions, estimator, name, percent(sure.mean()), percent(share, error), f"{logs:,}",
                   percent(rest, rest_error)]  # fmt: skip


def shares(weighted: pd.DataFrame, policies: pd.DataFrame) -> Iterator[list[Any]]:
    """Yield rows of coverage in cells of which more and fewer values are told; also policies beyond any hope count."""
    cell = [key for key in KEY if key not in ("seed", "round")]
    asked = policies[(policies["weights"] == "slate") & (policies["policy"] != "logging")]
    every = asked[~asked["policy"].str.endswith("twin")].groupby(cell).size()
    for name, rules in (("designed", DESIGNED), ("proposed", PROPOSED)):
        sure = weighted[told(weighted, rules)]
        share = (sure[sure["estimator"] == "ips"].groupby(cell).size() / every).reindex(every.index).fillna(0)
        of_row = share.reindex(pd.MultiIndex.from_frame(sure[cell])).to_numpy()
        for text, low, high in (("any", 0, 1.1), ("half and more", 0.5, 1.1), ("less than half", 0, 0.5)):
            within, group = (share >= low) & (share < high), sure[(of_row >= low) & (of_row < high)]
            held, error, logs = rate(group["holds"], group["log"])
            yield [
                name,
                text,
                percent(within.mean()),
                percent(share[within].mean()),
                percent(held, error),
                f"{logs:,}",
            ]


def kinds(sure: pd.DataFrame) -> Iterator[list[Any]]:
    """Yield rows of coverage by each property of logs and policies."""
    for by in ("decisions", "items", "logging", "rewards", "users", "policy", "estimator"):
        for (positions, kind), group in sure.groupby(["positions", by]):
            share, error, logs = rate(group["holds"], group["log"])
            below = rate(group["high"] < group["truth"], group["log"])[0]
            above = rate(group["low"] > group["truth"], group["log"])[0]
            yield [positions, by, kind, percent(share, error), percent(below), percent(above), f"{logs:,}"]


def cells(sure: pd.DataFrame) -> Iterator[list[Any]]:
    """Yield rows of coverage by cell."""
    for cell, group in sure.groupby(["positions", "decisions", "logging", "rewards"]):
        share, error, logs = rate(group["holds"], group["log"])
        if logs >= LEAST:
            yield [*cell, percent(share, error), f"{logs:,}"]


def quantities(weighted: pd.DataFrame) -> Iterator[list[Any]]:
    """Yield rows of coverage by each quantity, the other rules being content."""
    steps: dict[str, tuple[str, Sequence[float]]] = {
        "effective decisions": ("ess", (0, 50, 75, 100, 150, 250, 500, 1000, np.inf)),
        "largest weight": ("top", (0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15)),
        "half-widths of the mean weight from 1": (
            "off",
            (-np.inf, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, np.inf),
        ),
        "effective rewarded clusters": (
            "ess_rewarded_clusters",
            (8, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 500, np.inf),
        ),
        "unsupported": ("unsupported", (-1.0, 1e-9, 0.01, 0.02, 0.05, 0.1, 0.2, 1)),
    }
    for (quantity, (column, edges)), left_out in zip(steps.items(), PROPOSED, strict=False):
        others = {name: rule for name, rule in PROPOSED.items() if name != left_out}
        content = weighted[told(weighted, others)]
        for low, high in pairwise(edges):
            group = content[(content[column] >= low) & (content[column] < high)]
            share, error, logs = rate(group["holds"], group["log"])
            if logs >= 20:
                below = rate(group["high"] < group["truth"], group["log"])[0]
                yield [quantity, f"{low:g}", f"{high:g}", percent(share, error), percent(below), f"{logs:,}"]


def pairs(tables: dict[str, pd.DataFrame]) -> Iterator[list[Any]]:
    """Yield rows of error rates of paired tests."""
    found = tables["pairs"]
    kinds = np.where(found["b"] == "logging", found["a"] + ", logging", found["a"] + ", twin")
    for name, rules in (("none", {}), ("designed", DESIGNED), ("proposed", PROPOSED)):
        doubted = doubts_of_policies(tables["policies"], rules)
        sure = ~(looked_up(found, "a", doubted) | looked_up(found, "b", doubted))
        for estimator in ("all", *sorted(found["estimator"].unique())):
            of = (
                np.ones(len(found), dtype=bool)
                if estimator == "all"
                else (found["estimator"] == estimator).to_numpy()
            )
            for kind in ("all", *np.unique(kinds)):
                if "all" not in (estimator, kind):
                    continue
                asked = of & ((kinds == kind) | (kind == "all"))
                share, error, logs = rate(found["p"][asked & sure] < 0.05, found["log"][asked & sure])
                yield [kind, estimator, name, percent(sure[asked].mean()), percent(share, error), f"{logs:,}"]


def contests(tables: dict[str, pd.DataFrame]) -> Iterator[list[Any]]:
    """Yield rows of how often the best is kept."""
    found = tables["contests"]
    doubted = doubts_of_policies(tables["policies"], PROPOSED)
    of = {side: looked_up(found, side, doubted) for side in ("leader", "rival")}
    kept = [set(text.split("|")) for text in found["kept"]]
    in_doubt = [
        {policy for policy in compared.split("|") if doubted.get((log, policy), True)}
        for log, compared in zip(found["log"], found["compared"], strict=True)
    ]
    best = list(found["best"])
    stays = np.array([b in k for b, k in zip(best, kept, strict=True)])
    stays_too = np.array([b in k | d for b, k, d in zip(best, kept, in_doubt, strict=True)])
    left_in_doubt = np.array([bool(d - k) for d, k in zip(in_doubt, kept, strict=True)])
    single = np.array([len(k) == 1 for k in kept])
    single_too = np.array([len(k | d) == 1 for k, d in zip(kept, in_doubt, strict=True)])
    two = ~(of["leader"] | of["rival"])
    everywhere = np.ones(len(found), dtype=bool)
    ways = {
        "everywhere": (everywhere, stays, single),
        "leader and rival in no doubt": (two, stays, single),
        "the same, and policies in doubt stay": (two, stays_too, single_too),
        "the same, and none in doubt is left out": (two & ~left_in_doubt, stays, single),
        "no policy in doubt": (np.array([not d for d in in_doubt]), stays, single),
    }
    for estimator in ("all", *sorted(found["estimator"].unique())):
        asked = everywhere if estimator == "all" else (found["estimator"] == estimator).to_numpy()
        for way, (sure, hit, one) in ways.items():
            here = asked & sure
            share, error, logs = rate(hit[here], found["log"][here])
            alone = rate(one[here], found["log"][here])[0]
            yield [
                estimator,
                way,
                percent(sure[asked].mean()),
                percent(share, error),
                percent(alone),
                f"{logs:,}",
            ]


def doubts_of_policies(policies: pd.DataFrame, rules: Rules) -> dict[tuple[int, str], bool]:
    """Return whether the weights of a policy on a log are in doubt, by log and policy."""
    slate = policies[policies["weights"] == "slate"]
    doubted = np.zeros(len(slate), dtype=bool)
    for rule in rules.values():
        doubted |= np.asarray(rule(slate), dtype=bool)
    return dict(zip(zip(slate["log"], slate["policy"], strict=True), doubted.tolist(), strict=True))


def looked_up(table: pd.DataFrame, side: str, doubted: dict[tuple[int, str], bool]) -> Flags:
    """Return whether the policy in a column is in doubt."""
    return np.array([doubted.get(key, True) for key in zip(table["log"], table[side], strict=True)])


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([str(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percent(share: float, error: float | None = None) -> str:
    """Return a share in per cent, with its standard error."""
    if np.isnan(share):
        return "-"
    return f"{100 * share:.1f}" if error is None else f"{100 * share:.1f} ± {100 * error:.1f}"


if __name__ == "__main__":
    main()
