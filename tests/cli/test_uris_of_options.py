"""Credentials in URIs that options and arguments are given: no command prints them, in whole or in part."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import small_config, write_config

from evalplugin.cli import main

SECRET = "hunter2pass"
URIS = (
    f"file://ann:{SECRET}@/x.csv",
    f"file://[ann:{SECRET}@/x.csv",
    f"https://ann:{SECRET}@host/x.csv",
    f"https://ann:{SECRET}/w@host/x.csv",
    f"https://ann:{SECRET}@[host/x.csv",
    f"s3://AKIA:{SECRET}@bucket/x.csv",
    f"hdfs://ann:{SECRET}@host:8020/x.csv",
    f"https://host/x.csv?token={SECRET}",
    f"https://host/x.csv?X-Amz-Credential=AKIA&X-Amz-Signature={SECRET}",
)
STORES = (
    f"s3://AKIA:12/{SECRET}@bucket",
    f"s3://bucket:{SECRET}/x",
    f"wasbs://container@account/x?sig={SECRET}",
    f"https://[host/x?X-Amz-Credential=AKIA&X-Amz-Signature={SECRET}",
    f"postgresql+nodriver://ann:99/{SECRET}@host/db",
    f"oracle+nodriver:///?odbc_connect=DRIVER%3Dx%3BPWD%3D{SECRET}",
    f"postgresql:ann:{SECRET}@host/db",
    f"ann:{SECRET}@host",
)
OUTPUTS = (
    f"s3://bucket/x.txt?secret_key={SECRET}",
    f"sftp://ann:{SECRET}@host/x.txt",
    f"abfs://container@account.dfs.core.windows.net/x.txt?sv=2024&sig={SECRET}",
)
SCORE = "score --lists lists.csv --truth truth.csv --rank rank --metric ndcg@1"
COMMANDS = (
    "score --lists URI --truth truth.csv --rank rank --metric ndcg@1",
    "score --lists lists.csv --truth URI --rank rank --metric ndcg@1",
    f"{SCORE} --out URI",
    "compare --html URI --tracking-uri sqlite:///none.db",
    "compare-scores URI --unit user",
    "history --experiment x --tracking-uri sqlite:///none.db --chart URI",
    "run URI",
    "run shop.yaml --dry-run --outcome URI",
    "cache list --store URI",
    "run shop.yaml --dry-run --data-home URI",
    "run shop.yaml --dry-run --set tracking.uri=URI",
    f"{SCORE} --log --tracking-uri URI",
    "compare --tracking-uri URI",
    "history --experiment x --tracking-uri URI",
    "power shop.yaml --experiment x --tracking-uri URI",
    "run shop.yaml --dry-run --set datasets.0.type=URI",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_the_credentials_of_a_uri(command, capfd, monkeypatch):
    write_config(small_config())
    Path("lists.csv").write_text("user,item,rank\n1,1,1\n")
    Path("truth.csv").write_text("user,item\n1,1\n")
    option = command.partition(" URI")[0].split()[-1]
    is_output = option in ("--out", "--html", "--chart", "--outcome")
    is_store = command.endswith("--tracking-uri URI")
    for uri in STORES if is_store else (*URIS, *OUTPUTS) if is_output else URIS:
        monkeypatch.setattr("evalplugin.base.secrets._registered", set())  # by the URI before
        code = main([part.replace("URI", uri) for part in command.split()])
        assert code == 2 or not (is_output or is_store), uri
        shown = "".join(capfd.readouterr())
        assert "tracking URI" in shown or not is_store, (uri, shown)
        assert SECRET not in shown, (uri, shown)
        assert "Traceback" not in shown, (uri, shown)
