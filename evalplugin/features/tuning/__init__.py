"""Tuning: parameters of models are chosen on validation data inside the train data, with one budget for all models."""

from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.plan import studies_of
from evalplugin.features.tuning.study import Study

__all__ = ["Study", "run_studies", "studies_of"]
