"""Studies: a run config trained in several arms over seeds, and what came of it (`grpodyn sweep`)."""
