"""Provide workloads, recorded traces and the measurements on them."""
