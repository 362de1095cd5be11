"""The agents that have come, their seats, and the server for messages of agents and trainers.

May import the attempt and the plan. Never imports pyspark: the site decides where agents run.
"""
