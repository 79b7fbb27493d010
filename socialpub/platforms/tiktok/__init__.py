"""TikTok, over the Content Posting API."""
