"""One attempt: its books, and the actions that follow from them, as functions of (state, now).

May import the plan. Never touches storage, starts nothing, and never waits: all of it runs under the lock, except what
`Attempt.assignment` returns, which deals.
"""
