"""Charts: their specifications, data and colours; on the page, in notebooks and as pictures."""
