"""Models of repositories in folders, and files that addresses name."""

import hashlib
import io
import zipfile

import flambeau as fb
import pytest


def test_a_local_repository(tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "import helper_beside\ndependencies = ['numpy']\n\n"
        "def net(n, scale=1):\n    '''A net.'''\n    return n * scale + helper_beside.one\n\n"
        "def _hidden(): pass\n"
    )
    (tmp_path / "helper_beside.py").write_text("one = 1\n")
    assert fb.hub.list(str(tmp_path), source="local") == ["net"]
    assert fb.hub.help(str(tmp_path), "net", source="local") == "A net."
    assert fb.hub.load(tmp_path, "net", 2, source="local", scale=3) == 7
    with pytest.raises(RuntimeError, match="Cannot find callable"):
        fb.hub.load(tmp_path, "other", source="local")
    with pytest.raises(ValueError, match="Unknown source"):
        fb.hub.load(tmp_path, "net", source="elsewhere")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        fb.hub.list(str(tmp_path), source="local")


def test_files_of_addresses(tmp_path):
    fb.save({"w": fb.ones(2)}, tmp_path / "source.pt")
    digest = hashlib.sha256((tmp_path / "source.pt").read_bytes()).hexdigest()
    named = tmp_path / f"net-{digest[:8]}.pt"
    (tmp_path / "source.pt").rename(named)
    cache = tmp_path / "cache"
    for _ in range(2):  # the second time from the cache: the source is gone
        found = fb.hub.load_state_dict_from_url(named.as_uri(), model_dir=str(cache), check_hash=True)
        assert found["w"].tolist() == [1, 1]
        named.unlink(missing_ok=True)
    wrong = tmp_path / "net-00000000.pt"
    wrong.write_bytes(b"x" * 1000)
    with pytest.raises(RuntimeError, match="invalid hash value"):
        fb.hub.load_state_dict_from_url(wrong.as_uri(), model_dir=str(cache), check_hash=True)
    with pytest.raises(OSError):
        fb.hub.download_url_to_file((tmp_path / "none").as_uri(), cache / "none")
    assert [p.name for p in cache.iterdir()] == [named.name]  # nothing half done stays


def test_the_cache_lies_where_variables_say(tmp_path, monkeypatch):
    monkeypatch.setattr(fb.hub, "_chosen", None)  # what set_dir has set in this process
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert fb.hub.get_dir() == str(tmp_path / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert fb.hub.get_dir() == str(tmp_path / "x" / "torch" / "hub")


def test_an_old_archive_of_one_file(tmp_path):
    data = io.BytesIO()
    fb.save({"w": fb.ones(1)}, data, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        archive.writestr("old.pt", data.getvalue())
    found = fb.hub.load_state_dict_from_url((tmp_path / "old.zip").as_uri(), model_dir=str(tmp_path / "c"))
    assert found["w"].item() == 1
