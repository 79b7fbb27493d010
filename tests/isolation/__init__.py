"""Tests of organizations' isolation: attacks, fair shares, limits, hostile input."""
