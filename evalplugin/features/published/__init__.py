"""Published tables: their configs and values, and what was measured beside them."""
