"""Model-written code run behind walls: what may be trusted of it is only what comes through the pipe."""
