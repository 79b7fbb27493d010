"""Connected accounts: how they come, how their tokens stay good, how they go."""
