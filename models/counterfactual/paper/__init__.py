"""The explainer `d4-paper`: the paper's sampler; start with `sampler`."""
