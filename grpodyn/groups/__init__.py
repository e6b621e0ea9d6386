"""What a group size costs and gives: groups without spread, the noise of advantages, and what another size would do."""
