"""Media probe and metadata cleaner on real-world file variants and damaged files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, PngImagePlugin

from socialpub.base.errors import ApiError
from socialpub.domain.media import probe, probe_worker
from socialpub.domain.media.probe_worker import RefusedFileError
from socialpub.platforms.kit.images import remove_metadata
from tests.support.media_variants import SECRET, MediaVariant, variants

IMAGES = [variant for variant in variants() if variant.content_type.startswith("image/")]


def found(path: Path, data: bytes, content_type: str) -> dict[str, Any]:
    """What the reader says, in this process."""
    path.write_bytes(data)
    with path.open("rb") as file:
        return probe_worker.probe(file, content_type, probe.PIXELS_MAX)


def pixels(data: bytes) -> list[bytes]:
    """Every frame as it is shown, by a decoder that fills up nothing."""
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    with Image.open(io.BytesIO(data)) as image:
        frames = getattr(image, "n_frames", 1) if image.format != "MPO" else 1
        return [_frame(image, number) for number in range(frames)]


def _frame(image: Image.Image, number: int) -> bytes:
    image.seek(number)
    return (image if image.mode == "CMYK" else image.convert("RGBA")).tobytes()


def test_there_are_enough_variants_of_each_format() -> None:
    counts = {variant.content_type: 0 for variant in variants()}
    for variant in variants():
        counts[variant.content_type] += 1
    assert len(counts) == 5
    assert min(counts.values()) >= 40
    assert sum(counts.values()) >= 200


@pytest.mark.parametrize("content_type", sorted({variant.content_type for variant in variants()}))
def test_the_pixels_decide_and_a_refusal_says_why(tmp_path: Path, content_type: str) -> None:
    said = {each: why_not(tmp_path / "file", each) for each in variants() if each.content_type == content_type}
    assert {each.name: why for each, why in said.items() if bool(why) != bool(each.why) or each.why not in why} == {}


def why_not(path: Path, variant: MediaVariant) -> str:
    """Why a file is refused; "" when it is not."""
    try:
        return "" if found(path, variant.data, variant.content_type)["width"] else "it has no width"
    except RefusedFileError as refused:
        return str(refused)


@pytest.mark.parametrize("variant", [each for each in IMAGES if each.is_whole], ids=lambda variant: variant.name)
def test_what_is_accepted_is_cleaned_without_a_loss(variant: MediaVariant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PngImagePlugin, "MAX_TEXT_CHUNK", 1 << 26)  # colour profiles stay as they are
    clean = remove_metadata(variant.data, variant.content_type).data
    assert SECRET not in clean
    assert pixels(clean) == pixels(variant.shown_as)
    assert remove_metadata(clean, variant.content_type).data == clean


@pytest.mark.slow
@settings(max_examples=100)
@given(variant=st.sampled_from(IMAGES), data=st.data())
def test_no_damage_is_accepted_by_the_probe_and_refused_by_the_cleaner(
    tmp_path_factory: pytest.TempPathFactory, variant: MediaVariant, data: st.DataObject
) -> None:
    raw = bytearray(variant.data[:20_000])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(1, len(raw)))]
    content_type = probe.sniff(bytes(raw[: probe.SNIFF_BYTES]))
    if content_type is None or not content_type.startswith("image/"):
        return
    path = tmp_path_factory.getbasetemp() / "damaged"
    try:
        found(path, bytes(raw), content_type)
    except Exception:  # noqa: BLE001 - whatever it is, the file is refused
        return
    assert isinstance(remove_metadata(bytes(raw), content_type).data, bytes)


def test_the_cleaner_says_what_is_wrong_with_a_file() -> None:
    broken = next(each for each in IMAGES if each.name == "JPEG, a marker that is none")
    with pytest.raises(ApiError, match="It has a marker that no JPEG has in its place") as caught:
        remove_metadata(broken.data, broken.content_type)
    assert caught.value.rule == "media.unreadable"
