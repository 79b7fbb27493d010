"""The job queue: Huey over one table of leased jobs in the application's database."""
