# Filled by the packaging step: see docs/architecture.md.
