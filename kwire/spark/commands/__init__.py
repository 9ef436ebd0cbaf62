"""The actions of ``kwire pipeline`` that make, check, run and watch pipelines."""
