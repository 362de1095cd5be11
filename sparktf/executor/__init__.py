"""What runs inside a Spark task: the node agent."""
