"""Publish with openapi-generator's Python client, repeating each with its key."""

import json
import os

import client as api
import urllib3

AGAIN = (408, 429, 500, 502, 503, 504)
settings = api.Configuration(host=os.environ["URL"], access_token=os.environ["KEY"])
target = api.Target(account_id=os.environ["ACCOUNT"])
with api.ApiClient(settings) as http:
    posts = api.PostsApi(http)
    for text in json.loads(os.environ["TEXTS"]):
        request = api.PublishRequest(targets=[target], text=text)
        for _ in range(5):
            try:
                answer = posts.publish_posts(request, idempotency_key=text)
            except urllib3.exceptions.HTTPError:
                continue
            except api.ApiException as error:
                if error.status not in AGAIN:
                    raise
                continue
            print(answer.results[0].status.value)
            break
