"""Plugins: folders that bring skills, hooks, MCP servers and commands together, ours or published
for Claude Code, and whether they take part."""
