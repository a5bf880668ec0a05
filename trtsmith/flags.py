"""Turns declared options (trtsmith.options) into argparse flags."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Mapping
from typing import Any

from trtsmith.converter.base.options.declared import Block, Option, Options, blocks_of, options_of, title_of
from trtsmith.converter.base.options.kinds import Flag, OptionKind


class NextProfile(Action):
    """Ends one profile's shapes, where trtexec's --profile=N begins the next."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, value: Any, flag: Any = None) -> None:
        before = list(namespace.profiles)
        shapes = {
            name: getattr(namespace, name) for name in ("shapes", "minShapes", "optShapes", "maxShapes")
        }
        if any(shapes.values()):
            before.append(Namespace(**shapes))
            vars(namespace).update({name: type(value)() for name, value in shapes.items()})
            given = getattr(parser, "given", {})
            for name in shapes:  # the next profile has its own
                given.pop(name, None)
        if value != len(before):
            parser.error(
                f"argument {flag}: {value} is given for profile {len(before)}: they are numbered in order"
            )
        namespace.profiles = before


def add_model(parser: ArgumentParser, name: str = "MODEL") -> None:
    """Adds the argument of commands that read a model (trtsmith.arguments.named_model)."""
    parser.add_argument_group("model").add_argument(
        "model",
        metavar=name,
        help="an .onnx file; a torch.export program (.pt2); or MODULE:FUNCTION or FILE.py:FUNCTION, which returns a PyTorch "
        "module and its example",
    )


def add_options(parser: ArgumentParser, options: Options, terminal: type | None = None, **words: str) -> None:
    """Adds the flags of a command. terminal: options that its function lacks; they precede those of pages and operators.

    words: by option, what the command says in the place of {} in its help.
    """
    groups: dict[str, _ActionsContainer] = {str(group.title): group for group in parser._action_groups}
    groups[""] = parser
    done: set[str] = set()
    for block in blocks_of(options):
        if terminal is not None and {"html", "ops"} & {option.name for option in options_of(block)}:
            _add(parser, terminal, groups, done, words)
        _add(parser, block, groups, done, words)
    if terminal is not None:
        _add(parser, terminal, groups, done, words)
    without = {option.name: option.default for option in options_of(options) if not option.flags}
    parser.set_defaults(**without)


def _add(
    parser: ArgumentParser,
    block: Block,
    groups: dict[str, _ActionsContainer],
    done: set[str],
    words: Mapping[str, str],
) -> None:
    title = title_of(block)
    for option in options_of(block):
        if option.name in done or not option.flags:
            continue
        done.add(option.name)
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        for flag in option.flags:
            place = groups[title]
            if flag.alone:
                key = f"{title}: {flag.alone}"
                groups[key] = groups.get(key) or place.add_mutually_exclusive_group()
                place = groups[key]
            arguments = _arguments(option, flag) | flag.arguments
            if "{}" in arguments["help"]:
                arguments["help"] = arguments["help"].replace("{}", words[option.name])
            added = place.add_argument(*flag.names or [f"--{option.name.replace('_', '-')}"], **arguments)
            added.common = flag.common  # type: ignore[attr-defined]
            added.kind = option.kind if flag is option.flags[0] else OptionKind()  # type: ignore[attr-defined]


def _arguments(option: Option, flag: Flag) -> dict[str, Any]:
    """What argparse is told of a flag besides what it says itself."""
    if flag is not option.flags[0]:
        return {} if flag.default is None else {"default": flag.default}
    asked = {} if "action" in flag.arguments else option.kind.flag
    return {"dest": option.name, "default": option.default, **asked}
