"""Several files per sample: the mask of a picture, a second view of it. Pillow says what every pixel should be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from fullbore.errors import UsageError
from PIL import Image

GEOMETRY = [fb.RandomResizedCrop(24), fb.RandomHorizontalFlip(), fb.RandomVerticalFlip()]
ORIENTATION = 0x0112


def picture(rng: np.random.Generator, height: int, width: int) -> Image.Image:
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def mask(rng: np.random.Generator, height: int, width: int, kind: str) -> Image.Image:
    numbers = rng.integers(0, 2 if kind == "two" else 21, (height, width), dtype=np.uint8)
    image = Image.fromarray(numbers)
    if kind in ("palette", "two"):  # two colours: Pillow writes 1 bit per pixel
        image.putpalette(list(rng.integers(0, 256, 3 * (2 if kind == "two" else 21)).astype(int)))
    return image


def make_pairs(root: Path, count: int = 30, rows: Callable[[int], str] | None = None) -> Path:
    """JPEGs and PNGs with grey and palette masks; root/pairs.csv names them."""
    rng = np.random.default_rng(5)
    (root / "images").mkdir(parents=True)
    (root / "masks").mkdir()
    lines = ["image,mask" + (",score" if rows else "")]
    for i in range(count):
        height, width = (int(x) for x in rng.integers(30, 80, 2))
        name = f"images/{i:03}" + (".jpg" if i % 2 else ".png")
        picture(rng, height, width).save(root / name)
        mask(rng, height, width, ("grey", "palette", "two")[i % 3]).save(root / f"masks/{i:03}.png")
        lines.append(f"{name},masks/{i:03}.png" + (f",{rows(i)}" if rows else ""))
    (root / "pairs.csv").write_text("\n".join(lines) + "\n")
    return root / "pairs.csv"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pairs(tmp_path_factory.mktemp("pairs"))


def mask_of(pairs: Path, key: str) -> Path:
    return pairs.parent / "masks" / (Path(key).stem + ".png")


def as_drawn(image: Image.Image, draw: dict[str, Any], size: int, how: Image.Resampling) -> np.ndarray[Any, Any]:
    """Crop, resize and flip by Pillow."""
    box = (draw["left"], draw["top"], draw["left"] + draw["width"], draw["top"] + draw["height"])
    result = image.crop(box).resize((size, size), how)
    if draw.get("hflip"):
        result = result.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if draw.get("vflip"):
        result = result.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    return np.asarray(result)


def load(source: Path, **options: Any) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 7, "transforms": GEOMETRY, "framework": "numpy", **options})


# ---------------------------------------------------------------------------------------------------------------- pixels


def test_a_mask_gets_the_geometry_of_its_picture_and_keeps_its_numbers(pairs: Path) -> None:
    seen = 0
    with load(pairs, shuffle=True, fields=("image", "mask"), layout="NHWC") as loader:
        for _ in range(3):
            for batch in loader:
                images, masks = batch
                assert masks.dtype == np.uint8 and masks.shape == (len(batch.sample_keys), 24, 24)
                for i, key in enumerate(batch.sample_keys):
                    draw = batch.draws[i]
                    image, numbers = Image.open(pairs.parent / key).convert("RGB"), Image.open(mask_of(pairs, key))
                    assert np.array_equal(images[i], as_drawn(image, draw, 24, Image.Resampling.BILINEAR)), key
                    assert np.array_equal(masks[i], as_drawn(numbers, draw, 24, Image.Resampling.NEAREST)), key
                    seen += 1
    assert seen == 90


def test_colours_and_normalize_leave_masks_alone(pairs: Path) -> None:
    plain = load(pairs, shuffle=True)
    coloured = load(pairs, shuffle=True, transforms=[GEOMETRY[0], fb.ColorJitter(0.9, 0.9, 0.9, 0.4), fb.RandomGrayscale(0.5),
                                                     *GEOMETRY[1:], fb.Normalize.imagenet()])
    with plain, coloured:
        for a, b in zip(plain, coloured, strict=True):
            assert a[0].dtype == np.uint8 and b[0].dtype == np.float32 and b[1].dtype == np.uint8
            for i, key in enumerate(a.sample_keys):  # other random steps, so other draws of the flips: by their own
                assert np.array_equal(b["mask"][i], as_drawn(Image.open(mask_of(pairs, key)), b.draws[i], 24, Image.Resampling.NEAREST))


@pytest.mark.parametrize("transforms", [
    [fb.Resize((40, 56)), fb.CenterCrop(32)],
    [fb.Pad(9, fill=77, mask_fill=255), fb.RandomCrop(30)],
    [fb.RandomCrop(90, padding=4, pad_if_needed=True, fill=(9, 8, 7), mask_fill=250)],
    [fb.Resize(33), fb.CenterCrop(33), fb.Pad(2, padding_mode="reflect"), fb.RandomVerticalFlip(1.0)],
])
def test_every_geometric_step_moves_picture_and_mask_alike(tmp_path: Path, transforms: list[Any]) -> None:
    """A picture whose three channels hold its mask's numbers must come out as its mask does, where nothing is blended."""
    rng = np.random.default_rng(1)
    lines = ["path,target"]
    for i in range(12):
        numbers = np.kron(rng.integers(0, 9, (8, 8), dtype=np.uint8), np.ones((7, 7), np.uint8))
        Image.fromarray(np.stack([numbers] * 3, -1)).save(tmp_path / f"i{i}.png")
        Image.fromarray(numbers).save(tmp_path / f"t{i}.png")
        lines.append(f"i{i}.png,t{i}.png")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    steps = [fb.Resize(t.size if len(t.size) == 2 else t.size[0], interpolation="nearest") if isinstance(t, fb.Resize) else t
             for t in transforms]
    with load(tmp_path / "list.csv", transforms=steps, masks=["target"], layout="NHWC") as loader:
        for images, masks in loader:
            border = (images[..., 0] != masks)  # only where a border has a colour of its own
            fills = {t.mask_fill for t in steps if getattr(t, "mask_fill", 0)}
            assert set(np.unique(masks[border])) <= fills
            assert fills or not border.any()


def test_exif_turns_the_mask_as_it_turns_the_picture(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines = ["image,mask"]
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        picture(rng, 20, 31).save(tmp_path / f"{orientation}.jpg", exif=exif)
        mask(rng, 20, 31, "palette").save(tmp_path / f"m{orientation}.png")
        lines.append(f"{orientation}.jpg,m{orientation}.png")
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    turns = {2: (Image.Transpose.FLIP_LEFT_RIGHT,), 3: (Image.Transpose.ROTATE_180,), 4: (Image.Transpose.FLIP_TOP_BOTTOM,),
             5: (Image.Transpose.TRANSPOSE,), 6: (Image.Transpose.ROTATE_270,), 7: (Image.Transpose.TRANSVERSE,),
             8: (Image.Transpose.ROTATE_90,)}
    with load(tmp_path / "pairs.csv", batch_size=1, transforms=[fb.CenterCrop(18)], exif=True) as loader:
        for (_, masks), orientation in zip(loader, range(1, 9), strict=True):
            turned = Image.open(tmp_path / f"m{orientation}.png")
            for turn in turns.get(orientation, ()):
                turned = turned.transpose(turn)
            left, top = round((turned.width - 18) / 2), round((turned.height - 18) / 2)
            assert np.array_equal(masks[0], np.asarray(turned.crop((left, top, left + 18, top + 18)))), orientation


def test_two_views_are_pictures_with_the_same_draws(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = ["left,right,depth_mask"]
    for i in range(10):
        view = picture(rng, 50, 60)
        view.save(tmp_path / f"l{i}.png")
        view.save(tmp_path / f"r{i}.webp", lossless=True)
        mask(rng, 50, 60, "grey").save(tmp_path / f"d{i}.png")
        lines.append(f"l{i}.png,r{i}.webp,d{i}.png")
    (tmp_path / "views.csv").write_text("\n".join(lines))
    steps = [*GEOMETRY, fb.ColorJitter(0.4, 0.4, 0.4, 0.1), fb.Normalize.imagenet()]
    with load(tmp_path / "views.csv", transforms=steps, shuffle=True, fields=("left", "right", "depth_mask"),
              layout="channels_last") as loader:
        for batch in loader:
            assert batch.names == ("image", "right", "depth_mask")
            left, right, depth = batch
            assert right.dtype == np.float32 and right.strides == left.strides and depth.dtype == np.uint8
            assert np.array_equal(left, right)


def test_maps_see_pictures_and_their_size_must_stay(pairs: Path) -> None:
    calls = []

    def darker(image: np.ndarray[Any, Any], label: Any, rng: Any) -> np.ndarray[Any, Any]:
        calls.append(image.shape)
        return image // 2

    with load(pairs, transforms=[*GEOMETRY, fb.Map(darker)]) as mapped, load(pairs) as plain:
        for a, b in zip(mapped, plain, strict=True):
            assert np.array_equal(a[0], b[0] // 2) and np.array_equal(a[1], b[1])
    assert len(calls) >= 30
    with load(pairs, transforms=[fb.CenterCrop(30), fb.Map(lambda image, label, rng: image[2:, 2:].copy()), fb.Resize((8, 8))]) as loader, \
            pytest.raises(fb.SampleError, match="the mask would not match"):
        next(iter(loader))
    with pytest.raises(UsageError, match="its mask would not follow"):
        load(pairs, transforms=[fb.Map(lambda image, label, rng: image, size=(8, 8))])


def test_views_are_normalised_on_the_device_and_masks_are_not(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    source = make_pairs(tmp_path / "x", 9)
    source.write_text("image,mask,view\n" + "\n".join(f"{row},{row.split(',')[0]}" for row in source.read_text().splitlines()[1:]))
    steps = [*GEOMETRY, fb.Normalize.imagenet()]
    with load(source, transforms=steps, device="emulated:12GB/s,20us", device_normalize=True, framework="torch") as there, \
            load(source, transforms=steps, framework="torch") as here:
        for a, b in zip(there, here, strict=True):
            assert a.names == ("image", "mask", "view") and all(bool((x == y).all()) and x.dtype == y.dtype
                                                                for x, y in zip(a, b, strict=True))


# -------------------------------------------------------------------------------------------------------- fields and labels


def test_files_and_labels_come_in_the_order_asked_for(tmp_path: Path) -> None:
    source = make_pairs(tmp_path / "x", 6, lambda i: f"{i / 2}")
    with load(source) as loader:
        assert next(iter(loader)).names == ("image", "mask", "score")
    with load(source, fields=("image", "score", "mask")) as loader:
        batch = next(iter(loader))
        assert batch.names == ("image", "score", "mask") and batch["score"].tolist() == [i / 2 for i in range(6)]
        assert batch["mask"].shape == (6, 24, 24) and batch.as_dict(mask="labels")["labels"].shape == (6, 24, 24)
    for fields, names in ((("image",), ("image",)), (("image", "score"), ("image", "score")), (("mask",), ("image", "mask"))):
        with load(source, fields=fields) as loader:
            assert next(iter(loader)).names == names
    with pytest.raises(KeyError, match="there is image, mask"), load(source, fields=("image", "mask")) as loader:
        next(iter(loader))["score"]


def test_flips_change_labels_once_whatever_the_number_of_files(tmp_path: Path) -> None:
    source = make_pairs(tmp_path / "x", 20, lambda i: f"{i + 1.5}")
    flips = [fb.RandomResizedCrop(8), fb.RandomHorizontalFlip(0.5, negate=("score",))]
    with load(source, transforms=flips) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                value = int(Path(key).stem) + 1.5
                assert batch["score"][i] == (-value if batch.draws[i]["hflip"] else value)


def test_a_box_from_labels_cuts_the_mask_too(tmp_path: Path) -> None:
    source = make_pairs(tmp_path / "x", 8)
    table = [line + (",x0,y0,x1,y1" if i == 0 else ",3,4,25,20") for i, line in enumerate(source.read_text().splitlines())]
    source.write_text("\n".join(table))
    with load(source, transforms=[fb.CropBox("x0", "y0", "x1", "y1")], fields=("image", "mask", "x0", "y0", "x1", "y1")) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                assert np.array_equal(batch["mask"][i], np.asarray(Image.open(mask_of(source, key)).crop((3, 4, 25, 20))))


def test_one_sample_has_all_its_files(pairs: Path) -> None:
    with load(pairs, fields=("image", "mask"), transforms=[fb.CenterCrop(24)]) as loader:
        image, numbers = loader.dataset[4]
        assert np.asarray(image).shape == (3, 24, 24) and np.asarray(numbers).shape == (24, 24)


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_the_other_manifests_name_files_as_well(pairs: Path, suffix: str) -> None:
    rows = [line.split(",") for line in pairs.read_text().splitlines()[1:]]
    other = pairs.parent / f"pairs{suffix}"
    if suffix == ".tsv":
        other.write_text("image\tmask\n" + "\n".join("\t".join(row) for row in rows))
    else:
        other.write_text("\n".join(json.dumps({"image": str(pairs.parent / a), "mask": str(pairs.parent / b)}) for a, b in rows))
    with load(pairs) as one, load(other) as two:
        assert one.fingerprint == two.fingerprint
        for a, b in zip(one, two, strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_a_column_of_names_that_are_nowhere_stays_a_label(tmp_path: Path) -> None:
    source = make_pairs(tmp_path / "x", 4)
    source.write_text("image,came_from\n" + "\n".join(f"{line.split(',')[0]},old/{i}.jpg"
                                                      for i, line in enumerate(source.read_text().splitlines()[1:])))
    with load(source) as loader:
        batch = next(iter(loader))
        assert batch.names == ("image", "came_from") and loader.classes == [f"old/{i}.jpg" for i in range(4)]


# ---------------------------------------------------------------------------------------------------- the same every time


def contents(loader: fb.Loader) -> list[tuple[list[str], bytes, bytes]]:
    return [(batch.sample_keys, batch[0].tobytes(), batch[1].tobytes()) for batch in loader]


def test_threads_and_readers_change_nothing(pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with load(pairs, shuffle=True, threads=1) as loader:
        want = contents(loader)
    for threads, io in ((2, ""), (8, ""), (2, "pread"), (8, "slow:latency_us=300,jitter_us=900")):
        monkeypatch.setenv("FULLBORE_IO", io) if io else monkeypatch.delenv("FULLBORE_IO", raising=False)
        with load(pairs, shuffle=True, threads=threads) as loader:
            assert contents(loader) == want, (threads, io)


def test_a_state_goes_on_in_the_middle(pairs: Path) -> None:
    with load(pairs, shuffle=True) as loader:
        whole = contents(loader)
    with load(pairs, shuffle=True) as loader:
        running = iter(loader)
        for _ in range(2):
            next(running)
        state = loader.state_dict()
    with load(pairs, shuffle=True, threads=5) as later:
        later.load_state_dict(state)
        assert contents(later) == whole[2:]


def test_ranks_share_the_samples_with_their_files(pairs: Path) -> None:
    with load(pairs, shuffle=True, batch_size=6) as loader:
        whole = [key for keys, _, _ in contents(loader) for key in keys]
    parts = []
    for rank in range(2):
        with load(pairs, shuffle=True, batch_size=3, rank=rank, world_size=2) as loader:
            parts.append([key for keys, _, _ in contents(loader) for key in keys])
    assert sorted(parts[0] + parts[1]) == sorted(whole)


def test_a_state_of_other_masks_is_refused(pairs: Path, tmp_path: Path) -> None:
    with load(pairs) as loader:
        next(iter(loader))
        state = loader.state_dict()
    lines = pairs.read_text().splitlines()
    moved = pairs.parent / "moved.csv"
    swapped = [lines[0], *(f"{a.split(',')[0]},{b.split(',')[1]}" for a, b in zip(lines[1:], [*lines[2:], lines[1]], strict=True))]
    moved.write_text("\n".join(swapped))
    with load(moved) as other, pytest.raises(fb.Error, match="other data"):
        other.load_state_dict(state)


@pytest.mark.parametrize("options", [{"cache_ram": "8 MiB"}, {"cache_dir": "disk"}])
def test_caches_keep_both(pairs: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    if "cache_dir" in options:
        options = {"cache_dir": tmp_path / "disk"}
    with load(pairs, shuffle=True) as loader:
        want = [contents(loader) for _ in range(2)]
    with load(pairs, shuffle=True, **options) as loader:
        assert [contents(loader) for _ in range(2)] == want


# ------------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_missing_mask_is_a_bad_sample_that_names_it(tmp_path: Path, on_error: str) -> None:
    source = make_pairs(tmp_path / "x", 12)
    (source.parent / "masks/005.png").unlink()
    with load(source, on_error=on_error) as loader:
        if on_error == "raise":
            with pytest.raises(fb.SampleError, match="masks/005.png") as caught:
                contents(loader)
            assert caught.value.path == "masks/005.png" and caught.value.sample == 5
            return
        for _ in range(2):
            keys = [key for names, _, _ in contents(loader) for key in names]
            assert len(keys) == 12 and "images/005.jpg" not in keys
        assert {bad["path"] for bad in loader.stats()["bad_samples"]} == {"masks/005.png"}


def test_files_of_different_sizes_are_refused_with_both_names(tmp_path: Path) -> None:
    source = make_pairs(tmp_path / "x", 6)
    Image.new("L", (11, 12)).save(source.parent / "masks/003.png")
    with load(source) as loader, pytest.raises(fb.SampleError, match=r"11 x 12 .*images/003\.jpg") as caught:
        contents(loader)
    assert caught.value.path == "masks/003.png"


@pytest.mark.parametrize(("made", "words"), [
    (Image.new("RGB", (40, 40), (1, 2, 3)), "it has colours"),
    (Image.fromarray(np.full((40, 40), 300, np.uint16)), "16 bits per pixel"),
    (b"", "empty"),
    (b"not a picture at all, whatever its name says", "not"),
])
def test_what_is_no_mask_is_refused(tmp_path: Path, made: Image.Image | bytes, words: str) -> None:
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    if isinstance(made, bytes):
        (tmp_path / "b.png").write_bytes(made)
    else:
        made.save(tmp_path / "b.png")
    (tmp_path / "pairs.csv").write_text("image,mask\na.png,b.png\n")
    with load(tmp_path / "pairs.csv") as loader, pytest.raises(fb.SampleError, match=words) as caught:
        contents(loader)
    assert caught.value.path == "b.png"


def test_a_truncated_mask_is_refused_whatever_is_seen_of_it(tmp_path: Path) -> None:
    source = make_pairs(tmp_path / "x", 3)
    path = source.parent / "masks/001.png"
    path.write_bytes(path.read_bytes()[:-60])
    for seed in range(4):
        with load(source, seed=seed) as loader, pytest.raises(fb.SampleError, match="cut off|damaged"):
            contents(loader)


@pytest.mark.parametrize(("options", "words"), [
    ({"masks": ["score"]}, "masks= names 'score'"),
    ({"masks": "mask"}, "masks="),
    ({"fields": ("image", "mask", "mask")}, "named twice"),
    ({"fields": ("image", "depth")}, "there is no label called 'depth'"),
])
def test_fields_and_masks_that_are_not_there_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(make_pairs(tmp_path / "x", 3, str), **options)


def test_masks_of_a_folder_are_refused(photos: Path) -> None:
    with pytest.raises(UsageError, match="masks come from a manifest"):
        load(photos, masks=["mask"])


# ------------------------------------------------------------------------------------------------------------ reads in turn


def hardlinked(root: Path, count: int, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (root / f"0{name}").write_bytes(data)
        for i in range(1, count):
            os.link(root / f"0{name}", root / f"{i}{name}")


def reads_until_the_first_batch(source: Path, transforms: list[Any]) -> tuple[int, int]:
    with load(source, batch_size=128, transforms=transforms, threads=2) as loader:
        next(iter(loader))
        stats = loader.stats()
        return stats["io"]["reads"], stats["io"]["part_reads"]


def test_masks_of_the_first_batch_are_read_before_pictures_of_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three batches are planned. Were reads taken as they come, all 384 pictures would be read before the first mask: 512 in all."""
    make_pairs(tmp_path / "x", 1)
    files = {".png": (tmp_path / "x/images/000.png").read_bytes(), "m.png": (tmp_path / "x/masks/000.png").read_bytes()}
    hardlinked(tmp_path, 500, files)
    (tmp_path / "pairs.csv").write_text("image,mask\n" + "\n".join(f"{i}.png,{i}m.png" for i in range(500)))
    monkeypatch.setenv("FULLBORE_IO", "slow:iops=400")
    reads, _ = reads_until_the_first_batch(tmp_path / "pairs.csv", GEOMETRY)
    assert 256 <= reads < 450


def test_ranges_of_large_jpegs_are_read_before_heads_of_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (600, 600, 3), dtype=np.uint8)).save(tmp_path / "photo.jpg", quality=95)
    data = (tmp_path / "photo.jpg").read_bytes()
    assert len(data) >= 256 << 10
    folder = tmp_path / "photos"
    folder.mkdir()
    hardlinked(folder, 500, {".jpg": data})
    crop = [fb.CropBox("x0", "y0", "x1", "y1"), fb.Resize((8, 8))]
    (folder / "list.csv").write_text("path,x0,y0,x1,y1\n" + "\n".join(f"{i}.jpg,40,200,140,260" for i in range(500)))
    with load(folder / "list.csv", transforms=crop, batch_size=100) as loader:  # leaves records
        for _ in loader:
            pass
    monkeypatch.setenv("FULLBORE_IO", "slow:iops=400")
    reads, parts = reads_until_the_first_batch(folder / "list.csv", crop)
    assert parts >= 128
    assert 256 <= reads < 450
