"""One rule a file; `grpodyn.diagnosis.rule.rules` finds them."""
