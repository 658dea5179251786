"""Power: the number of users that finds a gain, and the gain that a number of users finds."""
