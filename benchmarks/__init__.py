"""Provide benchmarks with their workloads and recorded traces."""
