"""Sources of the documentation, and the scripts that check its figures."""
