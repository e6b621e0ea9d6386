"""The run config: one YAML file a run."""
