"""A scripted model server that speaks Anthropic Messages and OpenAI chat completions, streaming."""
