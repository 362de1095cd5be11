"""The words of the console script: what is said of those that are none, of help, and to a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored_runs import StoredRuns

import sparktf
from sparktf.commands.cli import main
from sparktf.commands.command_line import SHELLS, command_line
from sparktf.config.load import load_config

NIGHT = "2026-11-01"
ASK_FOR_RUNS = ["runs", "show", "diff", "report", "tensorboard", "models", "rollback", "promote"]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Returns what a line is refused with, which is no traceback and no verdict but wrong usage."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "usage", "said"),
    [
        (["chek"], "sparktf [", "there is no command 'chek': did you mean check?"),
        (["frobnicate"], "sparktf [", "there is no command 'frobnicate': there are check, plan, doctor, train, "),
        (["check"], "sparktf check ", "the following arguments are required: CONFIG"),
        (["check", "c.yaml", "--unknown"], "sparktf check ", "unrecognized arguments: --unknown\n"),
        (["check", "c.yaml", "--dates=1"], "sparktf check ", "unrecognized arguments: --dates=1: did you mean --date?"),
        (["rollback", "--to", "the last"], "sparktf rollback ", "argument --to: invalid int value: 'the last'"),
        (["completion", "tcsh"], "sparktf completion ", "invalid choice: 'tcsh'"),
        (["help", "rolback"], "sparktf help ", "there is no command 'rolback': did you mean rollback?"),
    ],
)
def test_a_wrong_line_is_told_the_usage_of_its_command(
    line: list[str], usage: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = refused(line, capsys)
    assert shown.startswith(f"usage: {usage}")
    assert said in shown


def test_help_is_that_of_a_command_or_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    everything = capsys.readouterr().out
    for name in command_line().commands:
        assert f"\n    {name}" in everything
        assert main(["help", name]) == 0
        by_word = capsys.readouterr().out
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        assert capsys.readouterr().out == by_word
        assert by_word.startswith(f"usage: sparktf {name} ")


def test_the_version_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"sparktf {sparktf.__version__}\n"


@pytest.mark.parametrize("command", ASK_FOR_RUNS)
def test_whoever_asks_for_runs_says_where_in_the_same_way(command: str) -> None:
    shown = command_line().help(command)
    for option in ("--output PATH", "--config FILE"):
        assert f"\n  {option} " in shown


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_told_of_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, command in command_line().commands.items():
        assert name in script
        for action in command._actions:
            for option in action.option_strings:
                assert option.lstrip("-") in script
    assert "kept, or changed where nights say so" not in script  # a menu has a line for each, not all of its help


def test_models_are_asked_for_by_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARKTF_OUTPUT", raising=False)
    stored = StoredRuns(tmp_path)
    config = ["--config", str(stored.root / "nightly" / NIGHT / "config.yaml")]
    assert load_config(config[1]).name == "nightly"
    assert main(["models", *config]) == 0
    assert f"nightly: {stored.root}/nightly/serving" in capsys.readouterr().out
    assert main(["rollback", *config]) == 0
    assert capsys.readouterr().out.startswith("nightly: version 1 is current, and no longer 2: ")
    assert main(["promote", "2026-11-02", *config]) == 0
    assert capsys.readouterr().out.startswith("nightly: version 2, of run 2026-11-02, is current: ")
    assert main(["models", "--output", str(stored.root)]) == 2
    assert capsys.readouterr().err == (
        f"no name is given: give NAME or --config FILE: {stored.root} has async, nightly, sync\n"
    )
    assert main(["promote", "2026-11-03", *config]) == 2
    assert "did you mean nightly/2026-11-02 or nightly/2026-11-01?" in capsys.readouterr().err
