"""The package as users get it: light imports, typed, and a wheel that holds exactly what the repository tracks."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run_python(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


# Folders beside `grpodyn/` and the sub-packages that they are installed as.
MAPPED = {"probes": "probes", "analyses": "analyses", "notebooks": "notebooks", "templates": "reports/templates"}
HEAVY = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def test_import_does_not_import_the_training_stack() -> None:
    loaded = run_python("import grpodyn, sys; print(*sys.modules)").split()
    assert not set(HEAVY) & set(loaded)


def test_building_the_command_line_does_not_import_the_training_stack_or_numpy() -> None:
    loaded = run_python("from grpodyn.cli.app import build; build(); import sys; print(*sys.modules)").split()
    assert not {*HEAVY, "numpy", "zarr", "xarray", "pandas"} & set(loaded)


def test_reading_a_run_does_not_import_torch() -> None:
    loaded = run_python(
        "import sys; from grpodyn import open_run, registry as r; r.analyses(); r.probes(); print(*sys.modules)"
    ).split()
    assert not set(HEAVY) & set(loaded)


def test_every_package_folder_is_mapped_in_pyproject() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {"grpodyn"} | {
        ".".join(init.parent.relative_to(ROOT).parts) for init in (ROOT / "grpodyn").rglob("__init__.py")
    }
    assert set(settings["packages"]) == folders | {f"grpodyn.{name}" for name in MAPPED}


def test_training_extra_has_lower_bounds_only() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(">=" in need and "<" not in need.replace(">=", "") and "==" not in need for need in extras["train"])


def test_constraints_pin_the_training_stack_exactly() -> None:
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert {"torch", "trl", "transformers", "peft", "zarr"} <= pinned


@pytest.mark.slow
def test_wheel_holds_what_git_tracks(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so there is no list of tracked files to compare with")
    # Built from an exported tree, sdist first: a stale build folder once brought a deleted file back.
    tree = tmp_path / "tree"
    tree.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), str(tree)], check=True, capture_output=True
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD", "grpodyn", *MAPPED.values()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    expected = {name for name in tracked if name.startswith("grpodyn/")}
    for package, folder in MAPPED.items():
        inside = [name for name in tracked if name.startswith(f"{folder}/")]
        expected |= {f"grpodyn/{package}{name.removeprefix(folder)}" for name in inside}
    assert names == expected
