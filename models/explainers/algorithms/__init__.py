"""One explainer per module; `models.explainers.catalogue` names them."""
