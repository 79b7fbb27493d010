"""Instagram professional accounts, over the Instagram API with Instagram Login."""
