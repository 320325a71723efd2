"""The decision core: events in, actions out. No clock, file, process, socket or unseeded chance.

``Manager.handle`` takes an event and returns what to log and what to do; ``Manager.apply`` folds a
logged event into the state.
"""
