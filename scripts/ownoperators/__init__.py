"""Runs packages of users' operators on machines with GPUs."""
