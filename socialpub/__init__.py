"""socialpub: publish one piece of content to up to 25 social accounts, once and on time."""

__version__ = "0.1.0"
