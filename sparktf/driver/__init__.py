"""The Spark driver's side: preflight, plan, reserve, watch, commit."""
