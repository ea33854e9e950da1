"""The steps of a run as functions over files: what each `component.py` calls. A layer above the stage libraries."""
