"""What the model sees: the system prompt in sections, and how much of a conversation fits."""
