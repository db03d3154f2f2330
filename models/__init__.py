"""The method: search, diffusion, witnesses and metrics; knows no HTTP, queue or database."""
