"""What the command line shows. Talk goes to stderr, results to stdout."""

from evalplugin.cli.show.progress import observer
from evalplugin.cli.show.tables import show_numbers, show_outcome, show_plan, show_scores, stdout

__all__ = ["observer", "show_numbers", "show_outcome", "show_plan", "show_scores", "stdout"]
