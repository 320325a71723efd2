"""The command line: parse, call one function, print.

``main.py`` knows every command by name and imports only the one that was asked for. Each has
``add_arguments`` and ``run``, which returns the exit status, or ``None`` for 0. Client commands
speak to the manager through ``client.py`` and import nothing heavy.
"""
