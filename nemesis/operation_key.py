"""Under which key the summary of a snapshot names the operation that made it.

Every engine's writer puts it there, the proxies read it in a commit, and the reader of the table's files in a snapshot. This module
imports nothing, because a writer's session does, in an environment of any Spark version.
"""

OPERATION_KEY = "icequake-op"
