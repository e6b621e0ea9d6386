"""What is going wrong in a run, and which setting mends it: findings with their evidence, from a run or a log.

`diagnose` walks the rules of `grpodyn/diagnosis/rules/` over what was observed. A rule is one small file; nothing lists
them.
"""

from grpodyn.diagnosis.diagnosing import Diagnosis, diagnose
from grpodyn.diagnosis.finding import SEVERITIES, Finding

__all__ = ["SEVERITIES", "Diagnosis", "Finding", "diagnose"]
