"""Tests of organizations: scoping, billing, deletion and shared writes."""
