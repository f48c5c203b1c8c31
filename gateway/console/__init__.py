"""The console: a web page of static files without a build step and without other hosts."""
