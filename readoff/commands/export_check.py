"""`readoff export check`: is a pack what it was when it was written?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from readoff.commands import options
from readoff.commands.output import print_json


def check(
    pack: Annotated[Path, typer.Argument(metavar="PACK", help="A folder with a pack.json.")],
    json_output: options.Json = False,
) -> None:
    """Compare every byte of a pack with the digests in its pack.json.

    Loading compares small files whole, and samples of large ones; this reads all.

    Example:

        readoff export check my-pack
    """
    from readoff.export.pack import read_pack

    found = read_pack(pack, verify=True)
    if json_output:
        sizes = {name: file.size for name, file in found.files.items()}
        print_json({"pack": str(pack), "model": found.name, "files": sizes, "intact": True})
    else:
        print(
            f"{pack}: {found.name}, {len(found.files)} files, {found.nbytes / 1e6:,.1f} MB, intact"
        )
