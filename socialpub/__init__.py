"""socialpub: one piece of content, up to 25 social accounts, published once, on time, with proof."""

__version__ = "0.1.0"
