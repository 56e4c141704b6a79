"""`readoff train`: labelled decisions in; a LoRA adapter in PEFT's format out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from readoff.commands import options


class Store(StrEnum):
    """The number format of the stored adapter."""

    FP16 = "fp16"
    BF16 = "bf16"
    FP32 = "fp32"


def train(
    data: Annotated[
        list[Path],
        typer.Option(
            "--data",
            metavar="DIR|FILE",
            exists=True,
            help="A folder with train.jsonl (and valid.jsonl), or a file; may be repeated.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="ADAPTER", help="The adapter's folder.", show_default=False),
    ],
    model: options.BareModel = "demo",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished training in ADAPTER.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier training in ADAPTER.")
    ] = False,
    epochs: Annotated[int, typer.Option(min=1)] = 1,
    max_steps: Annotated[int | None, typer.Option(metavar="N", min=1)] = None,
    limit_time: Annotated[
        float | None,
        typer.Option(metavar="MINUTES", help="Be done by then; the schedule follows the clock."),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Questions a step.")] = 132,
    micro_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Tokens that go through the model at once.")
    ] = 1536,
    at_once: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Passes that these are computed in at once; at most one a thread.",
        ),
    ] = 2,
    max_tokens: Annotated[
        int,
        typer.Option(
            "--max-tokens",
            "--max-tokens-per-state",
            metavar="N",
            min=1,
            help="The longest prompt: a state with one question.",
        ),
    ] = 2048,
    skip_long: Annotated[
        bool, typer.Option("--skip-long", help="Leave rows with longer prompts out, and say so.")
    ] = False,
    lr: Annotated[float, typer.Option(metavar="RATE", help="The largest learning rate.")] = 5e-5,
    warmup: Annotated[float, typer.Option(metavar="SHARE", help="Of the steps.")] = 0.05,
    weight_decay: Annotated[float, typer.Option(metavar="X")] = 0.0,
    clip: Annotated[float, typer.Option(metavar="NORM", help="Of a step's gradient.")] = 1.0,
    brier: Annotated[
        float, typer.Option(metavar="LAMBDA", help="The Brier score's share of the loss.")
    ] = 0.5,
    hard: Annotated[
        bool, typer.Option("--hard", help="Train on the largest target only, not on all of it.")
    ] = False,
    permute: Annotated[
        bool, typer.Option("--permute", help="Put the options of choices in a drawn order.")
    ] = False,
    rank: Annotated[int, typer.Option(metavar="R", min=1)] = 16,
    alpha: Annotated[float, typer.Option(metavar="ALPHA")] = 32.0,
    target_modules: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="With commas between; by default every linear layer."),
    ] = None,
    valid_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the states, where no row is for validation.")
    ] = 0.05,
    eval_every: Annotated[int, typer.Option(metavar="STEPS", min=1)] = 25,
    eval_rows: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of an evaluation at most.")
    ] = 400,
    patience: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Stop after N evaluations that aren't better; 0: never."
        ),
    ] = 3,
    store: Annotated[Store, typer.Option(help="How the adapter is stored.")] = Store.FP16,
    base_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the adapter calls its base (default: MODEL)."),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="ADAPTER",
            help="Go on from an earlier adapter of equal rank and modules (demo: its own).",
        ),
    ] = None,
    card: options.CardPath = None,
    revision: options.Revision = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    quantize: options.Quantize = None,
    threads: options.Threads = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_output: options.Json = False,
) -> None:
    """Train a LoRA adapter by soft-label learning for calibrated decisions.

    With --quantize int8 (fp8 isn't for training) the frozen weights of the layers that are trained
    are multiplied in 8 bits, the adapter's matrices never: 1.5 to 1.9 times as fast on a processor
    with AVX512-VNNI and without bf16.

    A row is a line of the labelled format: {"state", "questions", "answers"}, a label or a
    distribution for each question; "weight", "family", "language", "split", "group" and "source"
    are optional. Rows that a gate escalated, with the slow system's verdict and "source":
    "escalation", weigh 0.5 unless they say otherwise.

    ADAPTER gets adapter_config.json and adapter_model.safetensors (PEFT's format, the state with
    the best validation NLL), label_space.json, training.json and curves.png. Ctrl-C and
    SIGTERM save what --resume needs to go on to the bit.

    Examples:

        readoff train --model demo --data rows --out my-adapter

        readoff train --data rows.jsonl --data feedback.jsonl --out my-adapter --limit-time 120

        readoff train --data rows --out my-adapter --resume

        readoff train --data new-rows --init my-adapter --out my-better-adapter

        readoff decide --model demo --adapter my-adapter --request request.json
    """
    if resume and force:
        raise typer.BadParameter("--resume goes on with what --force replaces; give one of them.")
    from readoff.commands.train_run import run
    from readoff.learn.settings import Settings
    from readoff.learn.training import Source

    settings = Settings(
        seed=seed,
        epochs=epochs,
        max_steps=max_steps,
        limit_minutes=limit_time,
        batch=batch,
        micro_tokens=micro_tokens,
        at_once=at_once,
        max_tokens=max_tokens,
        skip_long=skip_long,
        learning_rate=lr,
        warmup=warmup,
        weight_decay=weight_decay,
        clip=clip,
        brier_weight=brier,
        hard=hard,
        permute=permute,
        rank=rank,
        alpha=alpha,
        targets=None if target_modules is None else _names(target_modules),
        valid_share=valid_share,
        eval_every=eval_every,
        eval_rows=eval_rows,
        patience=patience,
        stored=store.value,
        quantize=None if quantize is None else quantize.value,
    )
    source = Source(
        model=model,
        revision=revision,
        card=card,
        dtype=dtype.value,
        thread_count=threads,
        name=base_name,
        init=init,
    )
    run(source, data, out, settings, resume=resume, force=force, json_output=json_output)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
