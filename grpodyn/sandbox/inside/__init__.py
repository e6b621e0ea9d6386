"""Programs that run inside the walls. They import only the standard library, and each other's text, never grpodyn."""
