"""Publishing one post: what a run takes, what it is about to send, and what became of it."""

from socialpub.store import rows
from socialpub.store.statements import webhooks
from socialpub.store.statements.ids import id_of, number_of, told
from socialpub.store.statements.rows import Changes, Rows


def _columns(shape: type, table: str = "") -> str:
    """What a row has: the columns themselves, or, of a table, what is read of them."""
    return ", ".join(told(table, name) if table else name for name in shape.__annotations__)


# --- The claim -------------------------------------------------------------------------------------------------------

# The post, its account, the request that made it, and the number of its organization.
_TAKEN = f"""
    {_columns(rows.PostRow, "post")}, {_columns(rows.AccountRow, "account")}, batch.request_id, post.organization
"""
_BESIDE = "CROSS JOIN account ON account.number = post.account CROSS JOIN batch ON batch.id = post.batch"
# Of each [key, claims] of a JSON list that stands.
TAKE = f"""
    SELECT json_group_array(json_array({_TAKEN})) FROM json_each(?) AS claim
    CROSS JOIN job ON job.key = claim.value ->> 0 AND job.claims = claim.value ->> 1
    CROSS JOIN post ON post.id = job.key {_BESIDE}
"""
_POST = number_of("post", "?")
BEGIN_ATTEMPTS = Rows(  # of each its id, its post's number and its own; shared is when they begin
    "INSERT INTO attempt (id, post, number, started_at)", own=3, shared=1
)
END_ATTEMPT = f"""
    UPDATE attempt SET finished_at = ?, succeeded = ?, error_code = ?, error_message = ?, platform_response = ?
    WHERE post = {_POST} AND number = ?
"""
# Of each its post and its number; shared is when they were over.
ATTEMPTS_SUCCEEDED = Changes(
    f"""
    UPDATE attempt SET finished_at = ?1, succeeded = 1, error_code = NULL, error_message = NULL,
        platform_response = NULL
    FROM {{rows}} AS own WHERE attempt.post = {number_of("post", "own.column1")} AND attempt.number = own.column2
    """,
    own=2,
    shared=1,
)
MAY_HAVE_SENT = f"SELECT 1 FROM intent WHERE post = {_POST} AND (outcome IS NULL OR outcome = 'ok') LIMIT 1"

# --- Intents ---------------------------------------------------------------------------------------------------------

_INTENT = f"SELECT {_columns(rows.IntentRow, 'intent')} FROM intent"
INTENTS = f"{_INTENT} WHERE intent.post = {_POST} AND intent.attempt = ? ORDER BY intent.number"
OPEN_INTENT = f"{_INTENT} WHERE intent.post = {_POST} AND intent.outcome IS NULL"
EARLIER_INTENTS = f"""
    {_INTENT} WHERE intent.post = {_POST} AND intent.step = ? AND intent.number < ? AND intent.outcome <> 'rejected'
    ORDER BY intent.number DESC
"""
ACCOUNT_NOW = f"""
    SELECT {_columns(rows.AccountRow, "account")}
    FROM job, account WHERE job.key = ? AND job.claims = ? AND account.id = ?
"""
INTEND = f"""
    INSERT INTO intent ({_columns(rows.IntentRow)})
    SELECT NULL, number, ?2, {number_of("account", "?3")}, ?4,
           (SELECT count(*) + 1 FROM intent WHERE intent.post = post.number AND step = ?4), ?5, ?6, ?7, ?7,
           1, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM post WHERE id = ?1
    RETURNING id, number
"""
# Those of posts that begin with them: of each the number of its post, of its account and the plan; shared are the
# attempt, the step, the epoch and the time.
INTEND_FIRST = Rows(
    f"INSERT INTO intent ({_columns(rows.IntentRow)})",
    own=3,
    shared=4,
    values="NULL, {0}, ?1, {1}, ?2, 1, {2}, ?3, ?4, ?4, 1, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
)
IS_BOUND = f"SELECT 1 FROM intent WHERE account = {number_of('account', '?')} AND remote = ? AND id <> ?"
SETTLE = """
    UPDATE intent SET outcome = ?, settled_at = ?, remote = ?, result = ? WHERE id = ? AND outcome IS NULL
"""
# The ends of intents whose posts are published with them. Of each its id and what is kept of the platform's name for
# the post; shared is when.
SETTLE_PUBLISHED = Changes(
    """
    UPDATE intent SET outcome = 'ok', settled_at = ?1, remote = own.column2, result = NULL, plan = ''
    FROM {rows} AS own WHERE intent.id = own.column1 AND intent.outcome IS NULL
    """,
    own=2,
    shared=1,
)
WARNINGS = "SELECT warnings FROM post WHERE id = ?"
WARN = "UPDATE post SET warnings = ? WHERE id = ?"

# --- Ends ------------------------------------------------------------------------------------------------------------

REQUEST = "SELECT request_id FROM batch WHERE id = ?"
CLEAR_ATTENTION = """
    UPDATE account SET attention = NULL, updated_at = ?
    WHERE id IN (SELECT value FROM json_each(?)) AND attention IS NOT NULL
"""
LATER = "UPDATE post SET due_at = ? WHERE id = ?"
SAVE = "UPDATE post SET saved = ?, due_at = ? WHERE id = ?"
POST = _columns(rows.PostRow, "post")
# Who is told of what became of a post: read where its row is changed anyway.
RECEIVERS = f"""(
    SELECT json_group_array(json_array(id, profile, events, is_channel))
    FROM ({webhooks.receivers_of(id_of("organization", "post.organization"))})
)"""
NOBODY = "'[]'"

# --- What was lost ---------------------------------------------------------------------------------------------------

_TWIN = f"""
    SELECT 1 FROM intent
    WHERE intent.account = {number_of("account", "?1")} AND intent.id != ?3
        AND intent.intent_at BETWEEN ?4 AND ?5 AND intent.plan = ?2
"""
LOST_TWIN = f"""
    {_TWIN} AND outcome IS NULL
    UNION ALL {_TWIN} AND outcome = 'unknown' AND settled_by IS NULL
    LIMIT 1
"""

# --- Batches ---------------------------------------------------------------------------------------------------------

OPEN = "status IN ('queued', 'validated', 'publishing')"
HAS_ENDED = f"SELECT NOT EXISTS (SELECT 1 FROM post WHERE batch = ? AND {OPEN})"
SHOWN = (
    "id",
    "account",
    "platform",
    "status",
    "scheduled_at",
    "platform_uri",
    "platform_cid",
    "url",
    "first_comment_uri",
    "first_comment_cid",
    "warnings",
    "error",
)
BATCH = f"""
    SELECT created_at, scheduled_at, (
        SELECT json_group_array(json_array({", ".join(SHOWN)}))
        FROM (SELECT {", ".join(f"{told('post', name)} AS {name}" for name in SHOWN)} FROM post
            WHERE post.batch = batch.id ORDER BY position)
    )
    FROM batch WHERE id = ?
"""
ENDED = f"{BATCH} AND NOT EXISTS (SELECT 1 FROM post WHERE post.batch = batch.id AND {OPEN})"
