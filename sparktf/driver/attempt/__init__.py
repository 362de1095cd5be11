"""One attempt: its books, and what they say is to be done, as functions of (state, now).

May import the plan. Never touches storage, starts nothing, and never waits: all of it runs under the lock, but for what
`Attempt.assignment` returns, which deals.
"""
