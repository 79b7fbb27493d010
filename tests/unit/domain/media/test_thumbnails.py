"""Thumbnails by the probe's process: size, orientation, and every kind of image."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from socialpub.domain.media import probe
from tests.support.media_files import animation, mp4, picture

pytestmark = pytest.mark.usefixtures("quick_reader")
TURNED = 6  # EXIF: the camera was held upright, so that the image is displayed a quarter turn to the right


def encode(kind: str, mode: str, size: tuple[int, int] = (1200, 800), **options: object) -> bytes:
    out = io.BytesIO()
    image = Image.linear_gradient("L").resize(size)
    deep = image.convert("I").point(lambda value: value * 257) if mode == "I;16" else image
    deep.convert(mode).save(out, kind, **options)
    return out.getvalue()


def make(folder: Path, data: bytes) -> dict[int, Image.Image] | None:
    path = folder / "file"
    path.write_bytes(data)
    found = probe.make_thumbnails(path, (320, 960), "org")
    return found and {edge: Image.open(io.BytesIO(made), formats=["WEBP"]) for edge, made in found.items()}


def test_a_turned_photograph_is_upright_and_carries_no_camera_data(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = TURNED
    exif[0x010F] = "A camera"
    whole = Image.new("RGB", (1200, 800), "blue")
    whole.paste("red", (0, 0, 1200, 400))  # the upper half: on the right where it is displayed
    out = io.BytesIO()
    whole.save(out, "JPEG", exif=exif, quality=95)
    found = make(tmp_path, out.getvalue())
    assert found
    assert {edge: image.size for edge, image in found.items()} == {320: (213, 320), 960: (640, 960)}
    for image in found.values():
        assert not image.getexif()
        (left, right) = (image.convert("RGB").getpixel((x, image.height // 2)) for x in (5, image.width - 5))
        assert isinstance(left, tuple)
        assert isinstance(right, tuple)
        assert left[2] > 200 > left[0]
        assert right[0] > 200 > right[2]


@pytest.mark.parametrize(
    "data",
    [
        encode("PNG", "I;16"),
        encode("PNG", "P"),
        encode("PNG", "LA"),
        encode("PNG", "1"),
        encode("JPEG", "CMYK"),
        encode("JPEG", "L", progressive=True),
        encode("WEBP", "RGBA"),
        encode("GIF", "P"),
    ],
    ids=["16-bit", "palette", "transparent", "1-bit", "cmyk", "progressive", "webp", "gif"],
)
def test_every_kind_of_image_has_a_gradient_for_a_thumbnail(tmp_path: Path, data: bytes) -> None:
    found = make(tmp_path, data)
    assert found
    image = found[320].convert("RGB")
    assert image.size == (320, 213)
    top, bottom = (image.resize((1, 213)).getpixel((0, y)) for y in (3, 209))
    assert isinstance(top, tuple)
    assert isinstance(bottom, tuple)
    assert abs(sum(top) - sum(bottom)) > 300


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_an_animation_is_shown_by_its_first_frame_at_its_own_size(tmp_path: Path, kind: str) -> None:
    found = make(tmp_path, animation(kind))
    assert found
    assert {image.size for image in found.values()} == {(20, 10)}
    assert not any(getattr(image, "is_animated", False) for image in found.values())


@pytest.mark.slow
def test_a_video_and_a_damaged_image_have_none(tmp_path: Path) -> None:
    assert make(tmp_path, mp4()) is None
    assert make(tmp_path, picture("PNG", (400, 300))[:-600]) is None
    assert make(tmp_path, b"no image") is None
