"""The OpenAPI document, made of the route table and the types; nothing is written down twice."""
