"""Figures of jobs and answers for Prometheus; start with `metric_store`."""
