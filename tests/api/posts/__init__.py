"""Tests of posts: acceptance, scheduling, publishing, results and concurrency."""
