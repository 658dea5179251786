"""Features of a bake-off: parts that can be left out, called by the flow at named moments."""
