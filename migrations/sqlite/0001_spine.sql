-- What a receipt leads to, until the server shows it. Times are microseconds since 1970.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- One distinct element of S.
CREATE TABLE message (
    id                 INTEGER PRIMARY KEY,
    message_id         TEXT NOT NULL UNIQUE,
    sender             TEXT NOT NULL,
    message_type       TEXT NOT NULL,
    message_control_id TEXT NOT NULL,
    order_key          BLOB NOT NULL,
    semantic_hash      BLOB NOT NULL,
    business_key       BLOB,
    subject            TEXT,
    status             TEXT NOT NULL CHECK (status IN ('pending', 'applied', 'parked', 'rejected')),
    code               TEXT,
    verdict            TEXT NOT NULL,
    mapping_version    TEXT NOT NULL,
    corrects           INTEGER REFERENCES message (id),
    -- A receipt's id. No reference: a deferred one makes SQLite search message for each receipt that is inserted.
    first_receipt      INTEGER NOT NULL,
    refold             INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX message_pending ON message (subject, order_key) WHERE status = 'pending';
CREATE INDEX message_unsettled ON message (status) WHERE status <> 'applied';
CREATE INDEX message_parked ON message (code) WHERE status = 'parked';

-- One arrival of a frame.
CREATE TABLE receipt (
    id                 INTEGER PRIMARY KEY,
    receipt_id         TEXT NOT NULL UNIQUE,
    message            INTEGER REFERENCES message (id),
    received_at        INTEGER NOT NULL,
    sender             TEXT NOT NULL,
    peer               TEXT NOT NULL,
    traceparent        TEXT NOT NULL,
    message_control_id TEXT,
    verdict            TEXT NOT NULL,
    code               TEXT,
    ack                BLOB NOT NULL,
    alerts             TEXT NOT NULL DEFAULT '',
    -- The receipt whose payload row holds these bytes: itself, unless the same bytes came before.
    payload_of         INTEGER NOT NULL,
    audit_seq          INTEGER NOT NULL
);
CREATE INDEX receipt_message ON receipt (message);
CREATE INDEX receipt_control_id ON receipt (message_control_id);

-- The bytes, once for each distinct frame; apart from message so that a change of status does not rewrite them.
CREATE TABLE payload (
    receipt INTEGER PRIMARY KEY REFERENCES receipt (id),
    raw     BLOB NOT NULL
);

-- Which message is this? The primary key is the arbiter. Kinds: 1 raw, 2 semantic, 3 transport, 4 business.
CREATE TABLE identity (
    kind    INTEGER NOT NULL,
    key     BLOB NOT NULL,
    message INTEGER REFERENCES message (id),
    receipt INTEGER NOT NULL REFERENCES receipt (id),
    -- The alert about this key was raised.
    flagged INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- The unit of ordering and exclusive writing.
CREATE TABLE subject (
    subject        TEXT PRIMARY KEY,
    newest_key     BLOB,
    dirty          INTEGER NOT NULL DEFAULT 0,
    next_at        INTEGER NOT NULL DEFAULT 0,
    owner          TEXT,
    epoch          INTEGER NOT NULL DEFAULT 0,
    lease_until    INTEGER,
    failures       INTEGER NOT NULL DEFAULT 0,
    reason         TEXT,
    parked_code    TEXT,
    parked_summary TEXT
) WITHOUT ROWID;
CREATE INDEX subject_due ON subject (next_at) WHERE dirty = 1 AND parked_code IS NULL;
CREATE INDEX subject_parked ON subject (subject, parked_code) WHERE parked_code IS NOT NULL;

-- Folded registers of a resource.
CREATE TABLE checkpoint (
    full_url  TEXT PRIMARY KEY,
    version   INTEGER NOT NULL,
    registers BLOB NOT NULL
);

-- Shadow: what the server was last known to hold.
CREATE TABLE resource (
    full_url         TEXT PRIMARY KEY,
    resource_type    TEXT NOT NULL,
    system           TEXT NOT NULL,
    value            TEXT NOT NULL,
    subject          TEXT NOT NULL,
    server_id        TEXT,
    etag             TEXT,
    hash             BLOB NOT NULL,
    foreign_elements TEXT NOT NULL
);
CREATE INDEX resource_server_id ON resource (server_id);

CREATE TABLE message_resource (
    message  INTEGER NOT NULL REFERENCES message (id),
    full_url TEXT NOT NULL,
    PRIMARY KEY (message, full_url)
) WITHOUT ROWID;
CREATE INDEX message_resource_full_url ON message_resource (full_url, message);

-- A bundle that was sent or was about to be.
CREATE TABLE attempt (
    attempt_id  TEXT NOT NULL,
    subject     TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    resources   TEXT NOT NULL,
    bundle_hash BLOB NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('open', 'settled', 'superseded')),
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, subject)
);
CREATE INDEX attempt_open ON attempt (subject) WHERE state = 'open';

-- How many receipts had which verdict, so that metrics need not count rows.
CREATE TABLE tally (
    verdict TEXT PRIMARY KEY,
    n       INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE audit (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    event      TEXT NOT NULL,
    receipt_id TEXT,
    message_id TEXT,
    detail     TEXT NOT NULL,
    -- SHA-256 over the previous row's hash and this row.
    hash       BLOB NOT NULL
);
CREATE INDEX audit_message ON audit (message_id) WHERE receipt_id IS NULL AND message_id IS NOT NULL;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE (ABORT, 'audit is append-only'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE (ABORT, 'audit is append-only'); END;
-- INSERT OR REPLACE deletes without firing the delete trigger.
CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq) BEGIN SELECT RAISE (ABORT, 'audit is append-only'); END;
