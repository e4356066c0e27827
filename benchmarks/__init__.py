"""Workloads, recorded traces and the measurements made on them."""
