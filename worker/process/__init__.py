"""The processes of a worker: a Celery parent and the child that runs jobs."""
