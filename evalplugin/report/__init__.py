"""Reports: texts, tables, figures and the comparison page."""
