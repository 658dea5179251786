"""How often the checks find what was seeded, and how often anything is found in clean data.

python experiments/checks/study.py [--seeds 20]
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from defects import DEFECTS, clean, clean_log, findings

from evalplugin.features.checks.catalogue import CHECKS

FOLDER = Path(__file__).parent


def main() -> None:
    """Write ``found.csv`` and ``found.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    alarms: Counter[str] = Counter()
    for seed in seeds:
        alarms.update({finding.code for finding in findings(clean(seed))})
        alarms.update({finding.code for finding in findings(clean_log(np.random.default_rng(1000 + seed)))})
        print("clean", seed, dict(alarms), flush=True)
    lines = ["code,seeded,found,clean,alarms"]
    rows = ["| code | seeded into clean data | found | alarms in clean data |", "|---|---|---|---|"]
    for code in sorted(CHECKS):
        defect, seed_defect = DEFECTS[code]
        of = tuple({CHECKS[code].kind} - {"data"})
        found = 0
        for seed in seeds:
            seeded = seed_defect(clean(seed), np.random.default_rng(seed))
            found += code in {finding.code for finding in findings(seeded, of=of)}
        print(code, found, flush=True)
        lines.append(f"{code},{len(seeds)},{found},{len(seeds)},{alarms[code]}")
        rows.append(f"| {code} | {defect} | {found} of {len(seeds)} | {alarms[code]} of {len(seeds)} |")
    (FOLDER / "found.csv").write_text("\n".join(lines) + "\n")
    (FOLDER / "found.md").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
