"""What is known of a stored video beside its size: the deep rules of the platforms ask for it at publishing time."""


def up(migrator, db):
    for column in (
        "frame_rate REAL",
        "bit_rate INTEGER",
        "video_codec TEXT",
        "audio_codec TEXT",
        "has_audio INTEGER",
    ):
        db.execute_sql(f"ALTER TABLE media ADD COLUMN {column}")
