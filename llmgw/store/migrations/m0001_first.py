"""The first schema: everything that outlives a control plane.

Records lie in a column `value` as JSON, beside what is looked up or compared in SQL. Times are
seconds since the epoch.
"""

from sqlite_utils import Database

_TABLES = """
CREATE TABLE store (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    schema INTEGER NOT NULL,
    version TEXT NOT NULL,
    term INTEGER NOT NULL,
    holder TEXT NOT NULL,
    audit_rows INTEGER NOT NULL,
    audit_sha256 TEXT NOT NULL
);
CREATE TABLE settings (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    value TEXT NOT NULL
);
CREATE TABLE settings_changes (
    number INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    path TEXT NOT NULL,
    before TEXT,
    after TEXT
);
CREATE TABLE models (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
);
CREATE TABLE model_versions (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    changed REAL NOT NULL,
    changed_by TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name, version)
);
CREATE TABLE user_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    value TEXT NOT NULL
);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    value TEXT NOT NULL
);
CREATE TABLE join_tokens (
    id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    role TEXT NOT NULL,
    subject TEXT NOT NULL,
    expires REAL NOT NULL,
    used REAL
);
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    first_seen REAL NOT NULL,
    last_seen REAL NOT NULL,
    wish TEXT
);
CREATE TABLE certificates (
    serial TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    subject TEXT NOT NULL,
    ends REAL NOT NULL,
    denied REAL
);
CREATE INDEX certificates_subject ON certificates (role, subject);
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
);
CREATE TABLE usage_reports (
    gateway TEXT NOT NULL,
    boot TEXT NOT NULL,
    worker INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (gateway, boot, worker)
);
CREATE TABLE usage_totals (
    gateway TEXT NOT NULL,
    boot TEXT NOT NULL,
    worker INTEGER NOT NULL,
    user_key TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (gateway, boot, worker, user_key, model)
);
CREATE TABLE usage_hours (
    hour REAL NOT NULL,
    user_key TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (hour, user_key, model)
);
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,
    severity TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    words TEXT NOT NULL
);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    before TEXT,
    after TEXT,
    former TEXT NOT NULL,
    sha256 TEXT NOT NULL
);
"""


def make(db: Database) -> None:
    """Make all tables of the first schema."""
    db.executescript(_TABLES)
