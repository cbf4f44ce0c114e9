"""The door to the chat platforms: who may speak, what becomes of what they say, and how answers get
out."""
