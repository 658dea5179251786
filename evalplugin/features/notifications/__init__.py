"""Notifications of a bake-off's outcome, to a command or a webhook; a failed one is a warning."""
