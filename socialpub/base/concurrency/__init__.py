"""Threads, executors and admission: what may run, how much at once, in which order."""
