# Bake-off nightly.yaml, run by the job of evalplugin_nightly_databricks.yml; made by evalplugin 0.1.0.
import os
import sys

from evalplugin.cli import main

os.environ.setdefault("MLFLOW_TRACKING_URI", "databricks")
os.chdir(sys.argv[1])  # the folder of the bundle
if code := main(['schedule', '--once', '--if-changed', 'nightly.yaml']):
    raise RuntimeError(f"the bake-off ended with exit code {code}")
