"""The sentences of reports: one module for each topic, its templates first."""
