"""Studies: arms and seeds of run configs, trained one after another or side by side, resumable."""
