"""The index of the posts' texts."""

ADD_BATCH = """
    INSERT INTO post_search (rowid, fold, organization, profile, platform)
    SELECT number, text_fold, substr(organization, -3), substr(profile, -3), substr(platform, 1, 3)
    FROM post WHERE batch = ? ORDER BY number
"""
GONE_BACK = "UPDATE post_search_order SET disorder = max(disorder, ?)"
