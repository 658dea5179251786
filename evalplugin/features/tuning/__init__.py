"""Tuning: parameters of models are chosen on validation data inside the train data, with one budget for all models."""

from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.plan import planned_trials, studies_of
from evalplugin.features.tuning.study import Study
from evalplugin.features.tuning.summary import is_at_end, values_text

__all__ = ["Study", "is_at_end", "planned_trials", "run_studies", "studies_of", "values_text"]
