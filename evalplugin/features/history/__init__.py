"""History: what the models did from one bake-off to the next."""
