"""MLflow: training runs log their GNN, and `d4explain mlflow` explains each version of a model.

`run_files` names the files of a run and `version_record` the tags of a version. `follow` is the
loop of the command, `version_work` does one version, `standard_set` says which questions are asked,
and `webhook_listener` receives the webhooks of MLflow.
"""

from __future__ import annotations

from d4explain.mlflow.training_runs import log_gnn

__all__ = ["log_gnn"]
