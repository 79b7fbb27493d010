"""SIGKILL at every step of `keys rotate` and `keys forget`: both can be continued."""

from __future__ import annotations

from pathlib import Path

import pytest

from socialpub.base.security.crypto import parse_master_keys
from tests.support.sealed_secrets import key_ids_in_use
from tests.support.soak.killable_command import run_killable
from tests.support.soak.soak_world import SoakWorld, running_world

pytestmark = pytest.mark.slow
ACCOUNTS = 120  # more than are sealed anew in one transaction
STEPS = (
    *(f"rotate.written@{number}" for number in range(1, 4)),
    "rotate.file",
    "db.commit@1",
    *(f"rotate.part@{number}" for number in range(1, 11)),
    "rotate.aside",
)


def publish(world: SoakWorld, text: str) -> str:
    (account, *_), *_ = world.accounts.values()
    with world.client() as client:
        answer = client.post("/v1/posts", json={"text": text, "targets": [{"accountId": account}]})
    return str(answer.json()["status"])


def killed_at(world: SoakWorld, step: str) -> bool:
    """Whether a rotation came to that step, and was killed there."""
    name, _, at = step.partition("@")
    code, _ = run_killable(world.folder, "keys", "rotate", faults=f"{name}=kill@{at or 1}")
    assert code in (0, -9)
    return code == -9


@pytest.mark.parametrize("again", [False, True], ids=["beside the server", "with a start between"])
def test_a_rotation_killed_at_every_step_goes_on(tmp_path: Path, again: bool) -> None:
    with running_world(tmp_path, each=ACCOUNTS, on=("twitter",)) as world:
        world.start()
        for step in STEPS:
            file = world.folder / "master.key"
            (old,) = parse_master_keys(file.read_text())
            assert killed_at(world, step), step
            held = {key.id for key in parse_master_keys(file.read_text())}
            # Whatever seals something is in the file still.
            assert set.union(*key_ids_in_use(world.database).values()) <= held
            assert publish(world, f"{step}, killed") == "published"
            if again:
                world.kill()
                world.start()
                assert publish(world, f"{step}, started") == "published"
            code, made = run_killable(world.folder, "keys", "rotate")
            assert (code, made["left"]) == (0, [])
            (new,) = parse_master_keys(file.read_text())
            assert new.id != old.id
            assert set.union(*key_ids_in_use(world.database).values()) == {new.id}
            assert (world.folder / f"master.key.{old.id}").exists()
            assert list(world.folder.glob(".*")) == []
            assert publish(world, f"{step}, done") == "published"
        assert world.stop() == 0


def test_a_forgetting_killed_at_every_step_goes_on(tmp_path: Path) -> None:
    with running_world(tmp_path, each=ACCOUNTS, on=("twitter",)) as world:
        world.start()
        assert world.stop() == 0
        (world.folder / "master.key").unlink()
        for part in range(1, 4):
            code, _ = run_killable(world.folder, "keys", "forget", "--yes", faults=f"forget.part=kill@{part}")
            assert code == -9
            assert run_killable(world.folder, "serve", "--port", "0")[0] == 1  # the lost key is still named
        code, done = run_killable(world.folder, "keys", "forget", "--yes")
        assert code == 0
        (new,) = parse_master_keys((world.folder / "master.key").read_text())
        assert (done["keyId"], set.union(*key_ids_in_use(world.database).values())) == (new.id, {new.id})
        world.start()
        with world.client() as client:
            accounts = client.get("/v1/accounts").json()["data"]
            told = client.get("/v1/events", params={"type": "token.revoked", "limit": 200}).json()["data"]
        assert {account["status"] for account in accounts} == {"revoked"}
        assert len({event["data"]["accountId"] for event in told}) == len(told) == ACCOUNTS
        assert world.stop() == 0
