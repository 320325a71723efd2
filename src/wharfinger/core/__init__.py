"""The decision core: events in, actions out. No clock, file, process, socket or unseeded chance.

``Core.handle`` takes an event and returns what to log and what to do; ``Core.apply`` folds a
logged event into the state.
"""
