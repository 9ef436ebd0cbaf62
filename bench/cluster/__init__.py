"""What a cluster costs: changes of metadata, memory, starts, and how far several workers go."""
