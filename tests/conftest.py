"""What every test may rely on, however the suite was started."""

import signal


def pytest_configure() -> None:
    # A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests of Ctrl-C need it heard.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
