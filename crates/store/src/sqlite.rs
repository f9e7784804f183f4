//! The embedded store on SQLite.
