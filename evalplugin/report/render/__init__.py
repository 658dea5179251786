"""Tables as text of each kind: Markdown, LaTeX, HTML for notebooks, plain text. The terminal's is in ``cli/show/``."""
