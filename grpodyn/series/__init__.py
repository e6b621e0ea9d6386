"""A run's reward as a series: its axis, its noise, its segments and its schedule."""
