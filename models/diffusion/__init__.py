"""The denoiser: noise, network, losses and typicality; start with `denoiser`."""
