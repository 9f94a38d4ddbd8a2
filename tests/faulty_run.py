"""Runs specli with a fault of tests/test_verify.py: python tests/faulty_run.py FAULT ARGUMENT…"""

import os
import sys

import pytest
import test_verify

if __name__ == "__main__":
    os.environ["SPECLI_CHILD"] = "1"
    getattr(test_verify, sys.argv[1])(pytest.MonkeyPatch())
    sys.argv[1:] = sys.argv[2:]
    from specli.cli.main import main

    main()
