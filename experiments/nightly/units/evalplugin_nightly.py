# Bake-off nightly.yaml, 0 3 * * * in Europe/Berlin; made by evalplugin 0.1.0.
# For the DAGs folder of Airflow 3.
import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id='evalplugin_nightly',
    schedule='0 3 * * *',
    start_date=pendulum.datetime(2024, 1, 1, tz='Europe/Berlin'),
    catchup=False,
    max_active_runs=1,
    tags=["evalplugin"],
):
    BashOperator(
        task_id="bake_off",
        # A command that ended in .sh would be read as the name of a template.
        bash_command='/srv/recommender/.venv/bin/python -m evalplugin schedule --once --if-changed /srv/recommender/nightly.yaml ',
        cwd='/srv/recommender',
    )
