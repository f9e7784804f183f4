//! What can fail: one enum per operation over one classification of the database's faults.
//!
//! A write error says whether it certainly was not written; when it does not say so, the arrival may be given again under
//! a new receipt id, and the subject is claimed again: both are idempotent. No text here ever quotes a message or a key.

/// What the database could not do. The text of its own error is not kept: only its class and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No room on the disk or in the file's limit.
    Full,
    /// Another connection held the lock for longer than the busy time-out.
    Busy,
    /// Reading or writing the file failed.
    Io,
    /// The file may not be written.
    ReadOnly,
    /// A uniqueness, reference or trigger constraint refused the row.
    Constraint,
    /// The file is damaged or no database.
    Corrupt,
    /// The store is closed.
    Closed,
    /// A stored value can't be read back.
    Decode,
    /// Anything else, see the code.
    Other,
}

impl FaultKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Busy => "busy",
            Self::Io => "i/o error",
            Self::ReadOnly => "read-only",
            Self::Constraint => "constraint",
            Self::Corrupt => "corrupt",
            Self::Closed => "closed",
            Self::Decode => "unreadable value",
            Self::Other => "other",
        }
    }
}

/// A fault of the database under an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} (database code {code})", kind.as_str())]
pub struct Fault {
    /// Its class.
    pub kind: FaultKind,
    /// The database's own code, 0 if it gave none.
    pub code: i64,
}

impl Fault {
    /// A fault without a database code.
    pub const fn new(kind: FaultKind) -> Self {
        Self { kind, code: 0 }
    }
}

/// A write that failed in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("database: {fault}{}", if *certainly_not_written { ", nothing written" } else { ", outcome unknown" })]
pub struct WriteFault {
    /// Nothing of the operation is or will become durable.
    pub certainly_not_written: bool,
    /// What failed.
    pub fault: Fault,
}

macro_rules! certainly_not_written {
    ($($name:ident),*) => {$(
        impl $name {
            /// Whether nothing of the operation is or will become durable.
            pub const fn certainly_not_written(&self) -> bool {
                match self {
                    Self::Write(fault) => fault.certainly_not_written,
                    #[allow(unreachable_patterns, reason = "some operations fail in the database only")]
                    _ => true,
                }
            }
        }
    )*};
}

certainly_not_written!(
    AcceptError,
    ClaimError,
    LeaseError,
    AttemptError,
    SettleError,
    RetryError,
    ReidentifyError,
    IdentityKeyError
);

/// [`crate::Store::accept`] failed; the sender gets no positive answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// An arrival to apply has no subject.
    #[error("an arrival to apply needs keys and a subject")]
    NoSubject,
}

/// [`crate::Store::claim`] or [`crate::Store::claim_more`] failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// The claim to be extended was taken over.
    #[error("the lease was taken over")]
    StaleEpoch,
}

/// Renewing, releasing or parking under a lease failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// The claim was taken over or has ended.
    #[error("the lease was taken over")]
    StaleEpoch,
}

/// [`crate::Store::record_attempt`] failed; the bundle must not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttemptError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// The claim was taken over or has ended.
    #[error("the lease was taken over")]
    StaleEpoch,
}

/// [`crate::Store::settle`] failed; nothing of the settlement holds unless the outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// The claim was taken over or has ended.
    #[error("the lease was taken over")]
    StaleEpoch,
    /// Another claim settled one of the checkpoints since it was read: fold again from what is there now.
    #[error("a checkpoint was settled by another claim")]
    CheckpointMoved,
    /// A message to settle is none of the claim's.
    #[error("a message to settle is not one of the claim")]
    NotClaimed,
}

/// [`crate::Store::retry_parked`] failed; chunks before the failure hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetryError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
}

/// [`crate::Store::reidentify`] failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReidentifyError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// No parked or rejected message of this id.
    #[error("no parked or rejected message of this id")]
    NotParked,
    /// A message to apply has no subject.
    #[error("a message to apply needs a subject")]
    NoSubject,
}

/// Importing the identity key failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityKeyError {
    /// The database failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// Messages were stored under another key: identifiers made with it are on the server.
    #[error("the store holds messages under another identity key")]
    InUse,
}

/// A read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] Fault),
}

/// [`crate::Store::verify_audit`] found the chain broken, or could not read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] Fault),
    /// The row does not follow from the one before it.
    #[error("audit chain broken at row {seq}")]
    Broken {
        /// The first row that does not fit.
        seq: i64,
    },
}

/// The store can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database failed.
    #[error("store can't be opened: {0}")]
    Database(#[from] Fault),
    /// What was asked for is not what the database does (DESIGN §9 promise 1).
    #[error("{pragma} is {found}, must be {wanted}: acknowledged messages could be lost")]
    Unsafe {
        /// The setting read back.
        pragma: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// The file was written by a newer version.
    #[error("schema {found} is newer than {known}, the newest this version knows")]
    NewerSchema {
        /// Version in the file.
        found: i64,
        /// Newest known version.
        known: i64,
    },
    /// A migration that was applied has another text now.
    #[error("migration {version} differs from the one that was applied")]
    ChangedMigration {
        /// Its number.
        version: i64,
    },
    /// The operating system gave no randomness for the identity key.
    #[error("no randomness for the identity key")]
    NoRandomness,
}
