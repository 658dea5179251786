"""Tuning: parameters of models are chosen on validation data inside the train data, with one budget for all models."""

from evalplugin.tuning.engine import run_studies
from evalplugin.tuning.plan import planned_trials, studies_of
from evalplugin.tuning.study import Study

__all__ = ["Study", "planned_trials", "run_studies", "studies_of"]
