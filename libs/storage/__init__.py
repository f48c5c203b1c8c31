"""Storage of every service that keeps state: SQLite files and PostgreSQL servers behind one `Database`."""
