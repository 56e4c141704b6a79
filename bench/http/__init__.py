"""Opponents over HTTP: contacted only when the user names their URL."""
