"""A broker of a cluster imports nothing on the event loop that every cluster needs."""

import json
import subprocess
import sys

UNLESS_SET = (
    *("kwire.broker.client_metrics", "kwire.broker.quotas", "kwire.broker.replica.replica_moves"),
    "kwire.broker.group_state_work",
    *("kwire.connection.connection_limits", "kwire.connection.connection_rates"),
    *("kwire.connection.secured", "kwire.dispatch.authorized", "kwire.dispatch.metering"),
    *("kwire.security.audit", "kwire.security.authorizer", "kwire.security.login_lines"),
    *("kwire.broker.share_partitions", "kwire.broker.share_states", "kwire.share.persister"),
)
"""What only settings, share groups, or requests of administrators make a broker use."""

LOOK = """
import ast, json, sys
from pathlib import Path
import kwire.cluster_server, kwire.dispatch.preloading
kwire.dispatch.preloading.preload()
rooms = ("kwire.broker.", "kwire.connection.", "kwire.dispatch.", "kwire.handlers.")
missing = set()
for name in [name for name in sys.modules if name.startswith(rooms)]:
    for function in ast.walk(ast.parse(Path(sys.modules[name].__file__).read_text())):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            imports = [one for one in ast.walk(function) if isinstance(one, ast.ImportFrom)]
            missing.update(one.module for one in imports if one.module not in sys.modules)
print(json.dumps(sorted(name for name in missing if name.startswith("kwire."))))
"""


def test_what_functions_import_is_there_before() -> None:
    """Each import inside a function of these rooms, unless settings ask for it."""
    command = [sys.executable, "-c", LOOK]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == sorted(UNLESS_SET)
