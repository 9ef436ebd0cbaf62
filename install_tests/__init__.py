"""The wheel of ``make dist``, installed as a user would."""
