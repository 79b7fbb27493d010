"""LinkedIn members and pages, over the versioned Posts API."""
