"""Commands that read sessions read those of a bus, too."""

from pathlib import Path

import pytest

from sagent.testing.server import Turn
from tests.depth import few, later
from tests.plugins.mesh.places import by_results, place


@later
@pytest.mark.plugin("lab")
async def test_bus_sessions_list_export_and_share(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Hello from afar.")])) as here:
        await here.node("n1")
        code, _, err = await here.ask("grüße")
        session, bus = err.split("session ")[1].split(",")[0], ("--bus", here.url)
        assert code == 0
        code, out, err = await here.ask_plain("sessions", "list", *bus)
        assert (code, session in out, "idle" in out, "grüße" in out) == (0, True, True, True), err
        code, out, err = await here.ask_plain("sessions", "list", "--ids", *bus)
        assert (code, out) == (0, f"{session}\n"), err
        code, out, err = await here.ask_plain("sessions", "list", "--costs", *bus)
        assert (code, "sagent trace SESSION --bus URL" in err) == (2, True)
        code, out, err = await here.ask_plain("replay", session, *bus)
        assert (code, "OK: every request" in out) == (0, True), out + err
        code, out, err = await here.ask_plain("compare", session, session, *bus)
        assert (code, "call and reply is the same" in out) == (0, True), out + err
        for command in (
            ("sessions", "show", session),
            ("trace", session),
            ("export", session, "--format", "md", "--out", "-"),
        ):
            code, out, err = await here.ask_plain(*command, *bus)
            assert (code, "Hello from afar." in out) == (0, True), err
        bundle, folder = tmp_path / "b.tar", tmp_path / "shared"
        code, _, err = await here.ask_plain("export", session, "--out", str(bundle), *bus)
        assert code == 0, err
        assert (await here.ask_plain("verify", str(bundle)))[0] == 0
        code, _, err = await here.ask_plain("share", session, "--out", str(folder), *bus)
        assert (code, (folder / session / "index.html").is_file()) == (0, True), err
        for command in few(("trace", "export", "share", "verify", "replay")):
            code, _, err = await here.ask_plain(command, "nothing-like-that", *bus)
            assert (code, "No session of this bus begins with" in err) == (2, True), err
            code, _, err = await here.ask_plain(command, *bus)
            assert (code, "No session of the bus is named" in err) == (2, True), err
