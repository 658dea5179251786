"""The section ``checks``: findings that are ignored, and findings that are errors."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from evalplugin.config.schema import FeatureSection
from evalplugin.config.sections import Closed

# Of all checks, which are not imported here; a test compares them.
Code = Literal[
    "EV101", "EV102", "EV103", "EV104", "EV105", "EV106", "EV107", "EV108",
    "EV109", "EV110", "EV111", "EV112", "EV113", "EV114", "EV115", "EV116",
    "EV117", "EV118", "EV119", "EV120", "EV121", "EV122", "EV123", "EV124",
    "EV125", "EV126", "EV127",
]  # fmt: skip


class CheckRules(Closed):
    """What the checks of data and results may not find: see `evalplugin list checks`."""

    ignore: list[Code] = Field(
        default=[],
        description="Codes of checks that are not made; write the reason beside.",
        examples=[["EV103"]],
    )
    error: list[Code] = Field(
        default=[],
        description="Codes whose findings are errors: in the data, nothing is fitted (exit code 2); in the "
        "results, nothing is registered (exit code 1).",
        examples=[["EV101"]],
    )

    @model_validator(mode="after")
    def _not_in_both(self) -> CheckRules:
        if both := [code for code in self.ignore if code in self.error]:
            raise ValueError(f"{both[0]} stands under ignore and under error; keep one")
        return self


SECTIONS = (FeatureSection("checks", CheckRules, "decision"),)
