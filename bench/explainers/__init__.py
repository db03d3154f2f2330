"""The explainers of the paper: their sanity on known motifs, and the paper's tables."""
