"""Runs a private Docker engine with the images that the Dockerfile and the compose file name.

`make containers` tests the image, `make up` and testcontainers with it. The engine has its own
socket, data and bridge. It forwards no packets and writes no rules of a firewall, so the machine's
settings stay as they are.
"""
