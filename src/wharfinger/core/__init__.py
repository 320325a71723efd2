"""The decision core: events in, actions out, nothing else.

``Manager.handle`` takes one event and returns what to log and what to do; ``Manager.apply``
folds one logged event into the state. No clock, file, process, socket or unseeded random
number is used here; the runtime brings them.
"""
