"""The tables as they are now; migrations/ brings older ones here.

Documents whose shape the code owns (revisions, rollouts) are JSON; what is searched has a column.
"""

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Integer, LargeBinary, MetaData, String, Table

Whole = BigInteger().with_variant(Integer, "sqlite")
"""64 bits: SQLite's INTEGER has them, and numbers rows by itself only under that name."""

metadata = MetaData()

settings = Table("settings", metadata, Column("key", String, primary_key=True), Column("value", JSON, nullable=False))

switches = Table(
    "switches",
    metadata,
    Column("name", String, primary_key=True),
    Column("address", String, nullable=False),
    Column("role", String, nullable=False),
    Column("server_name", String),
    Column("applied_generation", Whole, nullable=False, default=0),
)

hosts = Table(
    "hosts",
    metadata,
    Column("name", String, primary_key=True),
    Column("policy_generation", Whole, nullable=False, default=0),
    Column("seen_at", Float),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Whole, primary_key=True),
    Column("name", String, nullable=False),
    Column("role", String, nullable=False),
    Column("digest", String, nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("revoked", Boolean, nullable=False, default=False),
)

batches = Table(
    "batches",
    metadata,
    Column("id", Whole, primary_key=True),
    Column("label", String, nullable=False, index=True),
    Column("host", String, nullable=False),
    Column("received_at", Float, nullable=False),
    Column("flows", Whole, nullable=False),
    Column("rows", LargeBinary, nullable=False),
)
"""Flow records, one row a batch that a host sent: `qclimb.record_rows.KEPT` packed."""

recordings = Table(
    "recordings",
    metadata,
    Column("label", String, primary_key=True),
    Column("host", String, primary_key=True),
    Column("histogram", JSON, nullable=False),
    Column("received", Whole, nullable=False),
    Column("dropped_at_host", Whole, nullable=False),
    Column("aged_out", Whole, nullable=False),
)
"""What is known of all flows of a label at a host, kept or not."""

models = Table(
    "models",
    metadata,
    Column("generation", Whole, primary_key=True),
    Column("label", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("report", JSON, nullable=False),
    Column("onnx", LargeBinary, nullable=False),
    Column("forest", LargeBinary, nullable=False),
)

revisions = Table(
    "revisions",
    metadata,
    Column("id", Whole, primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("created_by", String, nullable=False),
    Column("document", JSON, nullable=False),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("id", Whole, primary_key=True),
    Column("revision", Whole, nullable=False),
    Column("phase", String, nullable=False, index=True),
    Column("created_at", Float, nullable=False),
    Column("created_by", String, nullable=False),
    Column("document", JSON, nullable=False),
)

steps = Table(
    "rollout_steps",
    metadata,
    Column("rollout", Whole, primary_key=True, autoincrement=False),
    Column("kind", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("phase", String, nullable=False),
    Column("step", JSON, nullable=False),
)
"""How far a rollout is at a device; `kind` is "switches" or "hosts"."""

answers = Table(
    "answers",
    metadata,
    Column("key", String, primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("status", Whole, nullable=False),
    Column("body", JSON, nullable=False),
)
"""What a request with an Idempotency-Key was answered, so that its repetition gets the same; rest.idempotency."""

audit = Table(
    "audit",
    metadata,
    Column("id", Whole, primary_key=True),
    Column("at", Float, nullable=False),
    Column("actor", String, nullable=False),
    Column("action", String, nullable=False),
    Column("subject", String, nullable=False),
)
