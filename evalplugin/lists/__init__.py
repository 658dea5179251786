"""Lists from any system: read from tables and files, scored in memory or in partitions."""
