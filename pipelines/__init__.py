"""KFP graphs over the components, and the command that runs, compiles, submits and schedules them."""
