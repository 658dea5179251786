"""What reports say, as whole sentences: one module for each topic, its templates first."""
