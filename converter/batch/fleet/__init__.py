"""Runs the tasks of a batch on a Ray cluster, or on a Ray that is started on this machine."""
