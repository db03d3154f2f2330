"""D4Explainer's denoiser as the paper prints it: network, losses and recipe.

Start with `recipe.py`; docs/decisions/0013-the-paper-faithfully.md says what the paper leaves open.
"""
