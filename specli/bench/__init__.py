"""Timed runs: prompt sets, grids of settings, measurements that survive a noisy machine, and what they say."""
