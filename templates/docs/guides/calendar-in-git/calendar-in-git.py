"""calendar-in-git.py: see what became of the calendar `spring`."""

from socialpub_client import Socialpub

with Socialpub() as sp:
    for post in sp.posts.list(external_id_prefix="spring/"):
        print(post.external_id, post.platform, post.status, post.url or post.scheduled_at)
