"""Attacks on the command line and on run folders: ``make torture``.

No attack may end in a crash, a hang, a traceback, a half-written folder or a silent change of results.
"""
