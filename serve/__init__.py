"""The HTTP server: `/v1/systemone` and its neighbours."""
