"""Connected accounts: connect, refresh tokens, disconnect."""
