"""Ten calls with the Python client of openapi-generator."""

import os
from datetime import datetime

import client as api

target = api.Target(account_id=os.environ["ACCOUNT"])
settings = api.Configuration(host=os.environ["URL"], access_token=os.environ["KEY"])
with api.ApiClient(settings) as http:
    posts = api.PostsApi(http)
    platforms = api.CatalogueApi(http).list_platforms()
    print("platforms", ",".join(sorted(row.platform.value for row in platforms.data)))
    checked = posts.validate_posts(api.ValidateRequest(targets=[target], text="Now."))
    print("validate", str(checked.valid).lower(), checked.results[0].text.length)
    now = posts.publish_posts(api.PublishRequest(targets=[target], text="Now."))
    print("publish", now.results[0].status.value, now.results[0].url)
    media = api.MediaApi(http).upload_media(file=os.environ["PICTURE"], alt_text2="A square.")
    print("media", media.kind, media.width, media.alt_text)
    later = posts.publish_posts(
        api.PublishRequest(
            targets=[target],
            text="Later.",
            media=[api.MediaEntry(media.id)],
            scheduled_at=datetime.fromisoformat(os.environ["AT"]),
        )
    )
    post = later.results[0].post_id
    print("schedule", later.status, later.results[0].status.value)
    shown = posts.read_post(post)
    print("get", shown.status.value, shown.text, shown.media_refs[0].kind, len(shown.attempts))
    moved = posts.edit_post(post, api.PostEditRequest(scheduled_at=datetime.fromisoformat(os.environ["MOVED"])))
    print("patch", int(moved.scheduled_at.timestamp()))
    print("cancel", posts.cancel_post(post).status)
    endpoint = api.WebhooksApi(http).register_webhook_endpoint(
        api.EndpointRequest(url=os.environ["RECEIVER"], events=[api.EventType.EVENT_TYPE_QUOTA_WARNING])
    )
    print("endpoint", endpoint.events[0].value, endpoint.signing_secret[:6])
    events = [event.actual_instance for event in api.EventsApi(http).list_events().data]
    print("events", ",".join(sorted(event.type for event in events)))
    print("url", *(event.data.url for event in events if isinstance(event, api.PostPublishedEvent)))
    try:
        posts.publish_posts(api.PublishRequest(targets=[target], text="x" * 301))
    except api.ApiException as refused:
        error = refused.data.error
        print("error", refused.status, error.code.value, error.rule, error.platform_response[0]["targetIndex"])
