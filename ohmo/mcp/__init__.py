"""Tools of MCP servers (modelcontextprotocol.io): connected side by side, each under a task of its
own that nothing else waits for. Nothing here is imported without a server in the configuration, and
the SDK only with the first one, in a thread."""
