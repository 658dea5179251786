"""Files and URIs: stores, fingerprints, what code has read, and output that is written whole or not at all."""
