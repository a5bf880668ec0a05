"""Defines the operators, one module for each; modules with a leading underscore hold what several share."""
