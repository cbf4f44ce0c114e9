"""What the model sees: the system prompt in sections, and the conversation within the model's
window."""
