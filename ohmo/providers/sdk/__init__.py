"""What the clients of the SDKs share; it imports what they import, so it is loaded as late."""
