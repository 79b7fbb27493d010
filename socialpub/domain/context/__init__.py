"""The application context, which every domain function gets, and the shared state it holds."""
