"""What is compiled: the request, its canonical key, its form on the wire, and the manifest it comes from."""
