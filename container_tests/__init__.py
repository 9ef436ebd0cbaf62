"""The image of deploy/Containerfile as podman or docker builds and runs it: ``make container``."""
