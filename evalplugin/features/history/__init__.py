"""History: the means of models from one bake-off to the next."""
