"""Arms trained against each other over seeds at equal budgets (rung 3)."""
