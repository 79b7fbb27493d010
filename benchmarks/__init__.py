"""Benchmarks, run by `make bench`.

They decide nothing about a commit; tests assert query plans in their place.
"""
