"""Trains the denoiser; start with `make_trainer`, then `trainer`."""
