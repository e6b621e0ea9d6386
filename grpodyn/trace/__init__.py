"""The trace: one writer, one reader, one schema (docs/trace-schema.md)."""
