"""The server side of the chassis. Modules that clients share do not import it."""
