"""Notifications of a bake-off's outcome, to a command, a webhook or apprise; a failed one is a warning."""
