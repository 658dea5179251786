"""Compiled loops, most of which repeat the arithmetic of scikit-surprise.

Importing one of these modules costs numba's import. Each loop is compiled when its module is first imported on a
machine, and cached on disk. The compiler neither reorders sums nor fuses a product with a sum, so a loop that adds in
the order of Surprise returns the same bits.
"""
