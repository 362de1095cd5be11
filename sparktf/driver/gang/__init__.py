"""The agents that have come, the seats they get, and the server through which they and their trainers speak.

May import the attempt and the plan. Never imports pyspark: where agents run is said by its site.
"""
