"""Ten calls with the client of openapi-python-client."""

import os
from datetime import datetime
from io import BytesIO
from pathlib import Path

from client import AuthenticatedClient, models
from client.api.catalogue import list_platforms
from client.api.events import list_events
from client.api.media import upload_media
from client.api.posts import cancel_post, edit_post, publish_posts, read_post, validate_posts
from client.api.webhooks import register_webhook_endpoint
from client.types import File

target = models.Target(account_id=os.environ["ACCOUNT"])
picture = Path(os.environ["PICTURE"])
with AuthenticatedClient(base_url=os.environ["URL"], token=os.environ["KEY"]) as client:
    platforms = list_platforms.sync(client=client)
    print("platforms", ",".join(sorted(row.platform.value for row in platforms.data)))
    checked = validate_posts.sync(client=client, body=models.ValidateRequest(targets=[target], text="Now."))
    print("validate", str(checked.valid).lower(), checked.results[0].text.length)
    now = publish_posts.sync(client=client, body=models.PublishRequest(targets=[target], text="Now."))
    print("publish", now.results[0].status.value, now.results[0].url)
    file = File(payload=BytesIO(picture.read_bytes()), file_name=picture.name, mime_type="image/png")
    media = upload_media.sync(client=client, body=models.UploadMediaBody(file=file, alt_text="A square."))
    print("media", media.kind.value, media.width, media.alt_text)
    request = models.PublishRequest(
        targets=[target], text="Later.", media=[media.id], scheduled_at=datetime.fromisoformat(os.environ["AT"])
    )
    later = publish_posts.sync(client=client, body=request)
    post = later.results[0].post_id
    print("schedule", later.status.value, later.results[0].status.value)
    shown = read_post.sync(post, client=client)
    print("get", shown.status.value, shown.text, shown.media_refs[0].kind.value, len(shown.attempts))
    change = models.PostEditRequest(scheduled_at=datetime.fromisoformat(os.environ["MOVED"]))
    moved = edit_post.sync(post, client=client, body=change)
    print("patch", int(moved.scheduled_at.timestamp()))
    print("cancel", cancel_post.sync(post, client=client).status)
    asked = models.EndpointRequest(url=os.environ["RECEIVER"], events=[models.EventType.EVENT_TYPE_QUOTA_WARNING])
    endpoint = register_webhook_endpoint.sync(client=client, body=asked)
    print("endpoint", endpoint.events[0].value, endpoint.signing_secret[:6])
    events = list_events.sync(client=client).data
    print("events", ",".join(sorted(event.type_ for event in events)))
    print("url", *(event.data.url for event in events if isinstance(event, models.PostPublishedEvent)))
    refused = publish_posts.sync_detailed(client=client, body=models.PublishRequest(targets=[target], text="x" * 301))
    error = refused.parsed.error
    print("error", refused.status_code.value, error.code.value, error.rule, error.platform_response[0]["targetIndex"])
