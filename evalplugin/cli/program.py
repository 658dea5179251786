"""The command group, and the exit code and message of every error."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence

import click

from evalplugin._version import __version__
from evalplugin.base.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EvalpluginError,
    is_disk_full,
    nearness,
)
from evalplugin.base.secrets import redact
from evalplugin.base.signals import ignore_signals
from evalplugin.cli import options
from evalplugin.cli.cache import cache
from evalplugin.cli.compare import compare
from evalplugin.cli.compare_scores import compare_scores
from evalplugin.cli.describe import describe
from evalplugin.cli.list import list_
from evalplugin.cli.new import new
from evalplugin.cli.open import open_
from evalplugin.cli.run import run
from evalplugin.cli.schedule import schedule
from evalplugin.cli.schema import schema
from evalplugin.cli.score import score
from evalplugin.cli.shared import print_diagnostic, show_error
from evalplugin.cli.validate import validate
from evalplugin.features import modules


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad config or usage, 130 interrupted."""
    state = {"debug": False}
    # Characters that the encoding of stdout lacks are shown as stderr shows them.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(
            list(sys.argv[1:] if argv is None else argv), "evalplugin", standalone_mode=False, obj=state
        )
        return code if isinstance(code, int) else EXIT_DONE
    except click.exceptions.NoArgsIsHelpError as error:
        print_diagnostic(error.format_message())
        return EXIT_USAGE
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption) and error.possibilities:
            given = error.option_name.lstrip("-")
            error.possibilities[:] = [
                name for name in error.possibilities if nearness(given, name.lstrip("-"))
            ]
        shown = io.StringIO()
        error.show(shown)
        print_diagnostic(shown.getvalue().rstrip("\n"))
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        with ignore_signals():
            print_diagnostic("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # its reader has ended (`| head`)
        return EXIT_FAILED
    except EvalpluginError as error:
        if state["debug"]:
            print_diagnostic(traceback.format_exc().rstrip("\n"))
        else:
            show_error(str(error))
        return error.exit_code
    except OSError as error:
        if is_disk_full(error):
            _drop_output()
            place = error.filename if error.filename is not None else "a file or the output"
            show_error(f"cannot write {place}: {error.strerror}")
            return EXIT_FAILED
        return _defect()
    except Exception as error:  # noqa: BLE001 - the edge of the program
        from evalplugin.components.registry import line_in_plugin

        if state["debug"] or (line := line_in_plugin(error)) is None:
            return _defect()
        show_error(line)
        return EXIT_FAILED


def _drop_output() -> None:
    """Print nothing more on stdout: the rest of its buffer would cause a traceback at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _defect() -> int:
    print_diagnostic(redact(traceback.format_exc()).rstrip("\n"))
    print_diagnostic("this is a defect of evalplugin or of a plugin: please report the lines above")
    return EXIT_FAILED


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="%(version)s")
@options.debug
def cli() -> None:
    """Evidence-grade bake-offs of recommenders, inside MLflow."""


for command in (
    run,
    validate,
    score,
    compare,
    compare_scores,
    schedule,
    cache,
    list_,
    describe,
    schema,
    new,
    open_,
    *(module.COMMAND for module in modules("cli")),
):
    cli.add_command(command)
