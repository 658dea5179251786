# Bake-off nightly.yaml, 0 3 * * * in Europe/Berlin; made by evalplugin 0.1.0.
# A module of definitions for Dagster: dagster dev -f evalplugin_nightly_dagster.py
import subprocess

import dagster


@dagster.op
def bake_off() -> None:
    subprocess.run(['/srv/recommender/.venv/bin/python', '-m', 'evalplugin', 'schedule', '--once', '--if-changed', '/srv/recommender/nightly.yaml'], cwd='/srv/recommender', check=True)


@dagster.job
def evalplugin_nightly() -> None:
    bake_off()


schedule = dagster.ScheduleDefinition(
    job=evalplugin_nightly,
    cron_schedule='0 3 * * *',
    execution_timezone='Europe/Berlin',
    default_status=dagster.DefaultScheduleStatus.RUNNING,
)
defs = dagster.Definitions(jobs=[evalplugin_nightly], schedules=[schedule])
