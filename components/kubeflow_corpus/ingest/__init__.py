"""The steps of a run as functions over files: what each KFP component calls. A layer above the stage libraries."""
