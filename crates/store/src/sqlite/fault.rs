//! What sqlx and SQLite say, as the store's faults. The text of their errors is dropped: it may quote values.

use crate::{Fault, FaultKind};

/// Primary result codes of SQLite.
const BUSY: i64 = 5;
const LOCKED: i64 = 6;
const READONLY: i64 = 8;
const IOERR: i64 = 10;
const CORRUPT: i64 = 11;
const FULL: i64 = 13;
const CANTOPEN: i64 = 14;
const CONSTRAINT: i64 = 19;
const NOTADB: i64 = 26;

/// Classifies by the primary result code (the low byte of the extended one).
pub(super) fn fault(error: &sqlx::Error) -> Fault {
    match error {
        sqlx::Error::Database(database) => {
            let code = database.code().and_then(|code| code.parse::<i64>().ok()).unwrap_or(0);
            let kind = match code & 0xff {
                BUSY | LOCKED => FaultKind::Busy,
                READONLY => FaultKind::ReadOnly,
                IOERR | CANTOPEN => FaultKind::Io,
                CORRUPT | NOTADB => FaultKind::Corrupt,
                FULL => FaultKind::Full,
                CONSTRAINT => FaultKind::Constraint,
                _ => FaultKind::Other,
            };
            Fault { kind, code }
        }
        sqlx::Error::Io(_) => Fault::new(FaultKind::Io),
        sqlx::Error::PoolTimedOut => Fault::new(FaultKind::Busy),
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Fault::new(FaultKind::Closed),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Fault::new(FaultKind::Decode),
        _ => Fault::new(FaultKind::Other),
    }
}

/// A stored value that does not read back.
pub(super) const UNREADABLE: Fault = Fault::new(FaultKind::Decode);
