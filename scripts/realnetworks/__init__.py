"""Measures networks of real size, exported on the spot with random weights: conversion time and speed."""
