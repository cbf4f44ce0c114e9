"""The local door: HTTP API on a unix socket and on loopback TCP, login, event stream, and the
page."""
