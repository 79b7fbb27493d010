"""The composer: one text for several accounts, checked like the API, then sent or saved."""
