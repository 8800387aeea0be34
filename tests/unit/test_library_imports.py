import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> str:
    """Run code in a fresh interpreter, where nothing has been imported yet."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_speech_classes_and_resampling_work_in_a_fresh_interpreter() -> None:
    said = run(
        """
        import torch
        from probes.core import library_imports as libraries

        model = libraries.transformers().Wav2Vec2Model
        resample = libraries.torchaudio().functional.resample
        assert model.__name__ == "Wav2Vec2Model"
        assert resample(torch.zeros(8000), 8000, 16000).shape == (16000,)
        assert libraries.torchaudio() is libraries.torchaudio()
        print("done")
        """
    )
    assert said == "done\n"


# A torchaudio whose compiled part either loads or does not, without needing either build of it.
FAKE = """
    import sys, pathlib, tempfile
    folder = pathlib.Path(tempfile.mkdtemp()) / "torchaudio"
    (folder / "_extension").mkdir(parents=True)
    (folder / "early.py").write_text("")
    (folder / "__init__.py").write_text("from . import early, _extension\\nfrom ._extension import fail_if_no_align")
    (folder / "_extension" / "__init__.py").write_text({extension!r})
    sys.path.insert(0, str(folder.parent))
    from probes.core import library_imports as libraries
"""


def test_stand_in_takes_the_place_of_a_part_that_cannot_load() -> None:
    fake = textwrap.dedent(FAKE).format(extension="raise OSError('libc10_cuda.so: cannot open shared object file')")
    run(
        fake
        + textwrap.dedent(
            """
            package = libraries.torchaudio()
            assert package._extension._IS_TORCHAUDIO_EXT_AVAILABLE is False
            assert not libraries.compiled_aligner_available()

            def forced_align():
                raise AssertionError("must not be reached")

            try:
                package.fail_if_no_align(forced_align)()
            except RuntimeError as error:
                assert "forced_align" in str(error)
            else:
                raise AssertionError("no error")
            """
        )
    )


def test_compiled_part_is_used_where_it_loads() -> None:
    working = "_IS_TORCHAUDIO_EXT_AVAILABLE = True\n_IS_ALIGN_AVAILABLE = True\nfail_if_no_align = lambda f: f"
    run(
        textwrap.dedent(FAKE).format(extension=working)
        + "assert libraries.compiled_aligner_available()\nassert libraries.torchaudio()._extension.__file__\n"
    )


def test_a_missing_torchaudio_is_not_replaced() -> None:
    run(
        """
        import sys
        sys.modules["torchaudio"] = None
        from probes.core import library_imports as libraries

        try:
            libraries.torchaudio()
        except ModuleNotFoundError:
            assert "torchaudio._extension" not in sys.modules
        else:
            raise AssertionError("no error")
        """
    )


def test_transformers_is_silent_and_leaves_the_network_alone() -> None:
    said = run(
        """
        import os
        before = {name: value for name, value in os.environ.items() if name.startswith("HF_")}
        from probes.core import library_imports as libraries

        libraries.transformers()
        from transformers.utils import logging
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
        assert before == {name: value for name, value in os.environ.items() if name.startswith("HF_")}
        """
    )
    assert said == ""
