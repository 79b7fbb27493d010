"""History of the demo: days of posting and platform behavior, through the public API.

The clock starts days ago and is advanced to now, from event to event, without waiting.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image, ImageDraw, ImageFilter

from socialpub.base import http as outbound
from socialpub.base.runtime import SystemClock, format_iso
from socialpub.domain.accounts import token_refresh
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.notifications.notification_outbox import NotificationOutbox
from socialpub.domain.delivery.webhooks.webhook_outbox import WebhookOutbox
from socialpub.simulator.demo_story import (
    ASKED_MS,
    DAY_MS,
    DAYS,
    DRAFTS,
    HOOKS,
    PICTURES,
    SCENES,
    SLOTS,
    Picture,
    Scene,
    StoryDraft,
)
from socialpub.simulator.state import Settings, SimulatorState

SIZE = (1080, 1350)
PROCESSING_MS = Settings().processing_ms
FINAL_STATES = {"published", "rejected", "failed", "canceled"}
POLL_SECONDS = 0.005
STEP_SECONDS, STEP_MAX_SECONDS = 1.0, 60.0
POLLS_MAX = 4000  # polls per batch, and per wait for deliveries
OUTBOXES = (WebhookOutbox(), NotificationOutbox())


class ReplayClock(SystemClock):
    """Clock that starts days ago, until advanced to now."""

    def __init__(self) -> None:
        self._behind_ms = self._advanced_ms = 0

    def start_in_past(self) -> None:
        self._behind_ms = DAYS * DAY_MS

    def now_ms(self) -> int:
        return super().now_ms() - self._behind_ms

    def monotonic(self) -> float:
        return super().monotonic() + self._advanced_ms / 1000

    def advance(self, seconds: float) -> None:
        """Advance the clock, but not beyond now."""
        by_ms = min(self._behind_ms, max(0, int(seconds * 1000)))
        self._behind_ms -= by_ms
        self._advanced_ms += by_ms


@dataclass
class DemoHistory:
    """Server on `clock` with its users: `main` and `bakery` are their keys."""

    service: AppContext
    lab: SimulatorState
    lab_url: str
    clock: ReplayClock
    main: str
    bakery: str
    _media: dict[str, str] = field(default_factory=dict)
    _client: outbound.HttpClient = field(default_factory=lambda: outbound.HttpClient(outbound.UNGUARDED_POLICY))

    def replay(self) -> None:
        """Replay the whole story in order, up to now."""
        with self._client:
            self._replay()

    def _replay(self) -> None:
        self.lab.configure(processing_ms=0)  # platforms only process for long where a scene says so
        now = SystemClock().now_ms()
        for picture in PICTURES:
            self._media[picture.name] = self._upload(f"{picture.name}.jpg", _paint(picture), picture.alt)
        clip = self._client.get(f"{self.lab_url}/pages/clip.mp4").content
        self._media["clip"] = self._upload("clip.mp4", clip, "Colours that flow into each other")
        for answers, events in HOOKS:
            hook: dict[str, Any] = {
                "url": f"{self.lab_url}/hooks/{answers}",
                "description": "The shop's website",
                "events": events,
            }
            self._request("POST", "/v1/webhook-endpoints", self.main, json=hook)
        chat = {"to": {"kind": "slack", "url": f"{self.lab_url}/hooks/200"}, "description": "The kitchen's chat"}
        self._request("POST", "/v1/notification-channels", self.main, json=chat)
        batches: dict[int, dict[str, Any]] = {}
        for at, number, is_due in sorted(_schedule(now)):
            scene = SCENES[number]
            self._advance_to(at)
            if not is_due:
                batches[number] = self._post(scene, None if scene.at_once else scene.when.ms(now))
            if is_due or scene.at_once:
                self._publish(scene, batches[number])
        self._advance_to(SystemClock().now_ms())
        token_refresh.warn_ending(self.service)  # as a server does every minute
        self._request("PUT", "/v1/slots", self.main, json={"zone": "UTC", "weekly": SLOTS})
        for draft in DRAFTS:
            self._save_draft(draft, now)
        self.lab.configure(processing_ms=PROCESSING_MS)

    def _advance_to(self, at_ms: int) -> None:
        """Advance the clock, with a stop at each delivery that is due on the way."""
        while (due := self._wait_for_deliveries()) is not None and due < at_ms:
            self._set_clock(due)
        self._set_clock(at_ms)

    def _set_clock(self, at_ms: int) -> None:
        self.clock.advance((at_ms - self.clock.now_ms()) / 1000)
        self._wake()

    def _wait_for_deliveries(self) -> int | None:
        """Wait until no delivery is due, and return when the next one is."""
        pause = threading.Event()
        for _ in range(POLLS_MAX):
            is_busy = self.service.is_busy()
            dues = self.service.read(self._find_delivery_times).result()
            if not is_busy and (not dues or min(dues) > self.clock.now_ms()):
                return min(dues, default=None)
            pause.wait(POLL_SECONDS)
        raise RuntimeError("the demo's deliveries did not end")

    def _find_delivery_times(self) -> list[int]:
        return [due for outbox in OUTBOXES for _, due in outbox.find_next_due(self.service)]

    def _wake(self) -> None:
        self.service.jobs.wakeup.wake()
        self.service.wake_deliveries([])

    def _post(self, scene: Scene, due_ms: int | None) -> dict[str, Any]:
        body = _build_content(scene.platforms, scene.text, due_ms)
        if scene.picture:
            kind = "video" if scene.picture == "clip" else "image"
            body["media"] = [{"kind": kind, "mediaId": self._media[scene.picture]}]
        if scene.at_once:
            self._apply_faults(scene)
        batch: dict[str, Any] = self._request(
            "POST", "/v1/posts", self._key(scene), json=body, headers={"Prefer": "respond-async"}
        )
        self._change(scene, batch)
        return batch

    def _save_draft(self, draft: StoryDraft, now_ms: int) -> None:
        key = self._key(draft)
        body = _build_content(draft.platforms, draft.text, draft.when.ms(now_ms) if draft.when else None)
        saved = self._request("POST", "/v1/drafts", key, json=body)
        if draft.is_proposed:
            self._request("POST", f"/v1/drafts/{saved['id']}/propose", key)

    def _change(self, scene: Scene, batch: dict[str, Any]) -> None:
        """Apply a user's change before publication."""
        address = f"/v1/posts/{batch['results'][-1]['postId']}"
        if scene.then == "cancel":
            self._request("DELETE", address, self._key(scene))
        if scene.then == "move":
            later = format_iso(scene.when.ms(SystemClock().now_ms()) + DAY_MS)
            self._request("PATCH", address, self._key(scene), json={"scheduledAt": later})

    def _publish(self, scene: Scene, batch: dict[str, Any]) -> None:
        """Advance time until the batch has ended, or waits for a slow platform."""
        self._apply_faults(scene)
        self._wake()
        self._wait(scene, batch["id"])
        self.lab.faults.clear()
        self.lab.configure(processing_ms=0)

    def _apply_faults(self, scene: Scene) -> None:
        self.lab.faults.clear()
        self.lab.faults.add(scene.faults)
        self.lab.configure(processing_ms=scene.processing_ms)

    def _wait(self, scene: Scene, batch: str) -> None:
        step, pause = STEP_SECONDS, threading.Event()
        for _ in range(POLLS_MAX):
            pause.wait(POLL_SECONDS)
            if self.service.is_busy():
                step = STEP_SECONDS
                continue
            if self._has_ended(scene, batch):
                return
            self._advance_to(self.clock.now_ms() + int(step * 1000))
            step = min(step * 2, STEP_MAX_SECONDS)
        raise RuntimeError(f"the demo's post did not end: {scene.text}")

    def _has_ended(self, scene: Scene, batch: str) -> bool:
        posts = self._request("GET", f"/v1/posts?batchId={batch}", self._key(scene))["data"]
        ended = FINAL_STATES | ({"publishing"} if scene.processing_ms else set())
        return all(post["status"] in ended for post in posts)

    def _upload(self, name: str, content: bytes, alt: str) -> str:
        answer = self._request("POST", "/v1/media", self.main, files={"file": (name, content)}, data={"altText": alt})
        return str(answer["id"])

    def _key(self, story: Scene | StoryDraft) -> str:
        return self.bakery if story.bakery else self.main

    def _request(self, method: str, path: str, key: str, headers: dict[str, str] | None = None, **sent: Any) -> Any:
        all_headers = {"Authorization": f"Bearer {key}", **(headers or {})}
        address = f"{self.service.base_url}{path}"
        answer = self._client.request(method, address, headers=all_headers, **sent)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def _build_content(platforms: Sequence[str], text: str, due_ms: int | None) -> dict[str, Any]:
    """Build a publish request, or a draft, without media."""
    body: dict[str, Any] = {"targets": [{"platform": name} for name in platforms], "text": text}
    return body if due_ms is None else body | {"scheduledAt": format_iso(due_ms)}


def _schedule(now_ms: int) -> Iterator[tuple[int, int, bool]]:
    """Yield `(at_ms, scene number, is_due)`: when a scene is requested, and due if past."""
    for number, scene in enumerate(SCENES):
        due = scene.when.ms(now_ms)
        if scene.at_once:
            yield due, number, False
            continue
        yield min(due - ASKED_MS, now_ms - ASKED_MS // 4), number, False
        if due < now_ms and not scene.then:
            yield due, number, True


def _paint(picture: Picture) -> bytes:
    """Paint a poster: a sky in two colors with shapes."""
    above, below, things = picture.colours
    canvas = Image.linear_gradient("L").resize(SIZE)
    image = Image.composite(Image.new("RGB", SIZE, below), Image.new("RGB", SIZE, above), canvas)
    shapes = Image.new("L", SIZE, 0)
    draw = ImageDraw.Draw(shapes)
    for x, y, radius in picture.circles:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=210)
    shapes = shapes.filter(ImageFilter.GaussianBlur(6))
    image.paste(Image.new("RGB", SIZE, things), mask=shapes)
    into = io.BytesIO()
    image.save(into, "JPEG", quality=80)
    return into.getvalue()
