"""Holds the definitions, one module for each operator; modules with a leading underscore hold what several share."""
