"""Make answers.csv, an evaluation of language models like many: questions on texts, right or wrong; and compare it."""

from __future__ import annotations

import numpy as np
import pandas as pd

import evalplugin

TEXTS, PER_TEXT = 60, 5
ABILITY = {"small": -0.4, "large": 0.3, "large-tuned": 0.5}

generator = np.random.default_rng(0)
text = np.repeat(np.arange(TEXTS), PER_TEXT)  # questions on one text are hard or easy together
difficulty = generator.normal(size=TEXTS)[text] + 0.5 * generator.normal(size=len(text))
subject = np.array(["law", "physics", "history"])[text % 3]
table = pd.DataFrame(
    {
        "question": [f"{document}-{number % PER_TEXT}" for number, document in enumerate(text)]
        * len(ABILITY),
        "llm": np.repeat([*ABILITY], len(text)),
        "text": np.tile(text, len(ABILITY)),
        "subject": np.tile(subject, len(ABILITY)),
        "correct": np.concatenate(
            [ability - difficulty + generator.logistic(size=len(text)) > 0 for ability in ABILITY.values()]
        ).astype(int),
    }
)
table.to_csv("answers.csv", index=False)

compared = evalplugin.compare_scores(
    table, unit="question", model="llm", value="correct", cluster="text", segments="subject", baseline="large"
)
print("may be the best:", ", ".join(compared[0].may_be_best))
print(compared.to_frame()[["model", "mean", "low", "high", "difference", "p_holm", "mark"]].to_string())
compared.to_html("answers.html")
