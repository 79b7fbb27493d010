"""Publishing one post: claim, attempt, intents and outcome."""

from socialpub.store import rows
from socialpub.store.queries.bulk import BulkInsert, BulkUpdate
from socialpub.store.queries.id_columns import select_column, select_number
from socialpub.store.queries.maintenance import IS_OPEN


def _list_columns(shape: type, table: str = "") -> str:
    """Return the columns of a row type; with a table, the expressions that select them."""
    return ", ".join(select_column(table, name) if table else name for name in shape.__annotations__)


# --- The claim ------------------------------------------------------------------------------------------------------

# The post, its account, the request that made it, and the number of its organization.
_CLAIMED_COLUMNS = f"""
    {_list_columns(rows.PostRow, "post")}, {_list_columns(rows.AccountRow, "account")},
    batch.request_id, post.organization
"""
_JOINS = "CROSS JOIN account ON account.number = post.account CROSS JOIN batch ON batch.id = post.batch"
# Of each valid [key, claims] in a JSON list.
FIND_CLAIMED_POSTS = f"""
    SELECT json_group_array(json_array({_CLAIMED_COLUMNS})) FROM json_each(?) AS claim
    CROSS JOIN job ON job.key = claim.value ->> 0 AND job.claims = claim.value ->> 1
    CROSS JOIN post ON post.id = job.key {_JOINS}
"""
_POST_NUMBER = select_number("post", "?")
INSERT_ATTEMPTS = BulkInsert(  # own: id, number of the post, number; shared: the start
    "INSERT INTO attempt (id, post, number, started_at)", own=3, shared=1
)
RECORD_ATTEMPT = f"""
    UPDATE attempt SET finished_at = ?, succeeded = ?, error_code = ?, error_message = ?, platform_response = ?
    WHERE post = {_POST_NUMBER} AND number = ?
"""
# Own values: post and number. Shared: the end.
RECORD_SUCCESSFUL_ATTEMPTS = BulkUpdate(
    f"""
    UPDATE attempt SET finished_at = ?1, succeeded = 1, error_code = NULL, error_message = NULL,
        platform_response = NULL
    FROM {{rows}} AS own WHERE attempt.post = {select_number("post", "own.column1")} AND attempt.number = own.column2
    """,
    own=2,
    shared=1,
)
MAY_HAVE_SENT = f"SELECT 1 FROM intent WHERE post = {_POST_NUMBER} AND (outcome IS NULL OR outcome = 'ok') LIMIT 1"

# --- Intents --------------------------------------------------------------------------------------------------------

_SELECT_INTENT = f"SELECT {_list_columns(rows.IntentRow, 'intent')} FROM intent"
FIND_INTENTS = f"{_SELECT_INTENT} WHERE intent.post = {_POST_NUMBER} AND intent.attempt = ? ORDER BY intent.number"
FIND_OPEN_INTENT = f"{_SELECT_INTENT} WHERE intent.post = {_POST_NUMBER} AND intent.outcome IS NULL"
FIND_EARLIER_INTENTS = f"""
    {_SELECT_INTENT} WHERE intent.post = {_POST_NUMBER} AND intent.step = ? AND intent.number < ?
        AND intent.outcome <> 'rejected'
    ORDER BY intent.number DESC
"""
FIND_ACCOUNT = f"""
    SELECT {_list_columns(rows.AccountRow, "account")}
    FROM job, account WHERE job.key = ? AND job.claims = ? AND account.id = ?
"""
INSERT_INTENT = f"""
    INSERT INTO intent ({_list_columns(rows.IntentRow)})
    SELECT NULL, number, ?2, {select_number("account", "?3")}, ?4,
           (SELECT count(*) + 1 FROM intent WHERE intent.post = post.number AND step = ?4), ?5, ?6, ?7, ?7,
           1, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM post WHERE id = ?1
    RETURNING id, number
"""
# The first intents of posts. Own values: numbers of post and account, plan. Shared: attempt, step, epoch, time.
INSERT_FIRST_INTENTS = BulkInsert(
    f"INSERT INTO intent ({_list_columns(rows.IntentRow)})",
    own=3,
    shared=4,
    values="NULL, {0}, ?1, {1}, ?2, 1, {2}, ?3, ?4, ?4, 1, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
)
IS_REMOTE_BOUND = f"SELECT 1 FROM intent WHERE account = {select_number('account', '?')} AND remote = ? AND id <> ?"
RECORD_OUTCOME = """
    UPDATE intent SET outcome = ?, settled_at = ?, remote = ?, result = ? WHERE id = ? AND outcome IS NULL
"""
# The outcomes of intents whose posts are published. Own values: id and hash of the remote id. Shared: the time.
RECORD_PUBLISHED = BulkUpdate(
    """
    UPDATE intent SET outcome = 'ok', settled_at = ?1, remote = own.column2, result = NULL, plan = ''
    FROM {rows} AS own WHERE intent.id = own.column1 AND intent.outcome IS NULL
    """,
    own=2,
    shared=1,
)
FIND_WARNINGS = "SELECT warnings FROM post WHERE id = ?"
SET_WARNINGS = "UPDATE post SET warnings = ? WHERE id = ?"

# --- Outcomes -------------------------------------------------------------------------------------------------------

FIND_REQUEST_ID = "SELECT request_id FROM batch WHERE id = ?"
CLEAR_ATTENTION = """
    UPDATE account SET attention = NULL, updated_at = ?
    WHERE id IN (SELECT value FROM json_each(?)) AND attention IS NOT NULL
"""
SET_DUE_AT = "UPDATE post SET due_at = ? WHERE id = ?"
SET_PROGRESS = "UPDATE post SET saved = ?, due_at = ? WHERE id = ?"
POST_COLUMNS = _list_columns(rows.PostRow, "post")


# --- Threads --------------------------------------------------------------------------------------------------------

# Batch, place in it and first piece: the piece after it.
FIND_NEXT_PIECE = f"""
    SELECT id, {select_column("post", "account")} FROM post
    WHERE batch = ?1 AND position = ?2 + 1 AND thread_of = ?3
"""
# The pieces after a place in a batch, in order.
FIND_LATER_PIECES = f"""
    SELECT {_list_columns(rows.PostRow, "post")} FROM post
    WHERE batch = ?1 AND position > ?2 AND thread_of = ?3 ORDER BY position
"""
START_PIECE = """
    UPDATE post SET previous = ?2, due_at = ?3, next_attempt_at = ?3, updated_at = ?4
    WHERE id = ?1 AND status IN ('queued', 'validated')
"""

# --- Lost responses -------------------------------------------------------------------------------------------------

_SELECT_SAME_PLAN = f"""
    SELECT 1 FROM intent
    WHERE intent.account = {select_number("account", "?1")} AND intent.id != ?3
        AND intent.intent_at BETWEEN ?4 AND ?5 AND intent.plan = ?2
"""
FIND_UNSETTLED_DUPLICATE = f"""
    {_SELECT_SAME_PLAN} AND outcome IS NULL
    UNION ALL {_SELECT_SAME_PLAN} AND outcome = 'unknown' AND settled_by IS NULL
    LIMIT 1
"""

# --- Batches --------------------------------------------------------------------------------------------------------

IS_BATCH_FINISHED = f"SELECT NOT EXISTS (SELECT 1 FROM post WHERE batch = ? AND {IS_OPEN})"
BATCH_POST_COLUMNS = (
    "id",
    "account",
    "platform",
    "external_id",
    "status",
    "scheduled_at",
    "platform_uri",
    "platform_cid",
    "url",
    "first_comment_uri",
    "first_comment_cid",
    "warnings",
    "error",
    "thread_of",
)
FIND_BATCH = f"""
    SELECT created_at, scheduled_at, (
        SELECT json_group_array(json_array({", ".join(BATCH_POST_COLUMNS)}))
        FROM (SELECT {", ".join(f"{select_column('post', name)} AS {name}" for name in BATCH_POST_COLUMNS)} FROM post
            WHERE post.batch = batch.id ORDER BY position)
    )
    FROM batch WHERE id = ?
"""
FIND_FINISHED_BATCH = f"{FIND_BATCH} AND NOT EXISTS (SELECT 1 FROM post WHERE post.batch = batch.id AND {IS_OPEN})"
