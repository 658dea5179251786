"""Writing bake-offs to MLflow, reading them back, and registered models; ``mlflow`` is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["mlflow"]

if TYPE_CHECKING:
    import mlflow
else:
    from evalplugin.base.libraries import Lazy

    mlflow = Lazy("mlflow")
