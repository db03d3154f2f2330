"""The dashboard: TypeScript in `source/`, what browsers load in `static/` (`make dashboard`)."""
