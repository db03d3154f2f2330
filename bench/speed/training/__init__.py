"""Speed and memory of the denoiser's training; start with `trainings`."""
