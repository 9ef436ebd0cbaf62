"""Reports of brokers that have ended with a failing test, for the report of that test.

A broker in a ``with`` block of a test is gone when pytest reports the failure, so it leaves its
report here. The plugin empties the list before each test.
"""

REPORTS: list[str] = []
