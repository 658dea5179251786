"""Terminal output: results on stdout, progress and warnings on stderr."""

from evalplugin.cli.show.progress import observer
from evalplugin.cli.show.tables import show_bakeoff, show_dry_run, show_links, show_numbers, show_scores

__all__ = ["observer", "show_bakeoff", "show_dry_run", "show_links", "show_numbers", "show_scores"]
