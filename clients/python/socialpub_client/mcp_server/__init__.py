"""MCP server over the API: tools for assistants, by stdio or streamable HTTP."""
