"""The command line: parse, call one function, print.

``main.py`` knows every command by name and imports only the one that was asked for; each
has ``add_arguments`` and ``run``. Client commands speak to the manager through
``client.py`` and import nothing heavy.
"""
