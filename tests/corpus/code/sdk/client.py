"""Talks to the widget service."""

import json

# How long a call may take, in seconds.
DEFAULT_TIMEOUT = 30
_RETRIES = 5


def widget(func=None, *, base_image: str | None = None):
    """Turns a function into a widget.

    Args:
        func: The function.
        option_0: Says what the widget does in its phase 0, and is passed on to the service as it is.

        option_1: Says what the widget does in its phase 1, and is passed on to the service as it is.

        option_2: Says what the widget does in its phase 2, and is passed on to the service as it is.

        option_3: Says what the widget does in its phase 3, and is passed on to the service as it is.

        option_4: Says what the widget does in its phase 4, and is passed on to the service as it is.

        option_5: Says what the widget does in its phase 5, and is passed on to the service as it is.

        option_6: Says what the widget does in its phase 6, and is passed on to the service as it is.

        option_7: Says what the widget does in its phase 7, and is passed on to the service as it is.

        option_8: Says what the widget does in its phase 8, and is passed on to the service as it is.

        option_9: Says what the widget does in its phase 9, and is passed on to the service as it is.

        option_10: Says what the widget does in its phase 10, and is passed on to the service as it is.

        option_11: Says what the widget does in its phase 11, and is passed on to the service as it is.

        option_12: Says what the widget does in its phase 12, and is passed on to the service as it is.

        option_13: Says what the widget does in its phase 13, and is passed on to the service as it is.

        option_14: Says what the widget does in its phase 14, and is passed on to the service as it is.

        option_15: Says what the widget does in its phase 15, and is passed on to the service as it is.

        option_16: Says what the widget does in its phase 16, and is passed on to the service as it is.

        option_17: Says what the widget does in its phase 17, and is passed on to the service as it is.

        option_18: Says what the widget does in its phase 18, and is passed on to the service as it is.

        option_19: Says what the widget does in its phase 19, and is passed on to the service as it is.

        option_20: Says what the widget does in its phase 20, and is passed on to the service as it is.

        option_21: Says what the widget does in its phase 21, and is passed on to the service as it is.

        option_22: Says what the widget does in its phase 22, and is passed on to the service as it is.

        option_23: Says what the widget does in its phase 23, and is passed on to the service as it is.

        option_24: Says what the widget does in its phase 24, and is passed on to the service as it is.

        option_25: Says what the widget does in its phase 25, and is passed on to the service as it is.

        option_26: Says what the widget does in its phase 26, and is passed on to the service as it is.

        option_27: Says what the widget does in its phase 27, and is passed on to the service as it is.

        option_28: Says what the widget does in its phase 28, and is passed on to the service as it is.

        option_29: Says what the widget does in its phase 29, and is passed on to the service as it is.

        option_30: Says what the widget does in its phase 30, and is passed on to the service as it is.

        option_31: Says what the widget does in its phase 31, and is passed on to the service as it is.

        option_32: Says what the widget does in its phase 32, and is passed on to the service as it is.

        option_33: Says what the widget does in its phase 33, and is passed on to the service as it is.

        option_34: Says what the widget does in its phase 34, and is passed on to the service as it is.

        option_35: Says what the widget does in its phase 35, and is passed on to the service as it is.

        option_36: Says what the widget does in its phase 36, and is passed on to the service as it is.

        option_37: Says what the widget does in its phase 37, and is passed on to the service as it is.

        option_38: Says what the widget does in its phase 38, and is passed on to the service as it is.

        option_39: Says what the widget does in its phase 39, and is passed on to the service as it is.

        option_40: Says what the widget does in its phase 40, and is passed on to the service as it is.

        option_41: Says what the widget does in its phase 41, and is passed on to the service as it is.

        option_42: Says what the widget does in its phase 42, and is passed on to the service as it is.

        option_43: Says what the widget does in its phase 43, and is passed on to the service as it is.

        option_44: Says what the widget does in its phase 44, and is passed on to the service as it is.

        option_45: Says what the widget does in its phase 45, and is passed on to the service as it is.

        option_46: Says what the widget does in its phase 46, and is passed on to the service as it is.

        option_47: Says what the widget does in its phase 47, and is passed on to the service as it is.

        option_48: Says what the widget does in its phase 48, and is passed on to the service as it is.

        option_49: Says what the widget does in its phase 49, and is passed on to the service as it is.

        option_50: Says what the widget does in its phase 50, and is passed on to the service as it is.

        option_51: Says what the widget does in its phase 51, and is passed on to the service as it is.

        option_52: Says what the widget does in its phase 52, and is passed on to the service as it is.

        option_53: Says what the widget does in its phase 53, and is passed on to the service as it is.

        option_54: Says what the widget does in its phase 54, and is passed on to the service as it is.

        option_55: Says what the widget does in its phase 55, and is passed on to the service as it is.

        option_56: Says what the widget does in its phase 56, and is passed on to the service as it is.

        option_57: Says what the widget does in its phase 57, and is passed on to the service as it is.

        option_58: Says what the widget does in its phase 58, and is passed on to the service as it is.

        option_59: Says what the widget does in its phase 59, and is passed on to the service as it is.

    """
    if func is None:
        return lambda inner: widget(inner, base_image=base_image)
    return func


class Client:
    """Talks to the API server.

    Args:
        host: Where the server is.
    """

    # Name of the service inside a cluster.
    _SERVICE = "widgets.{}.svc.cluster.local:8888"

    def __init__(self, host: str | None = None) -> None:
        self._host = host

    @property
    def value_0(self) -> str:
        """Returns value 0 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 0})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_0(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 0 is there."""
        for _attempt in range(_RETRIES):
            if self.value_0:
                return self.value_0
        raise TimeoutError(f"value 0 after {timeout} seconds")

    @property
    def value_1(self) -> str:
        """Returns value 1 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 1})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_1(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 1 is there."""
        for _attempt in range(_RETRIES):
            if self.value_1:
                return self.value_1
        raise TimeoutError(f"value 1 after {timeout} seconds")

    @property
    def value_2(self) -> str:
        """Returns value 2 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 2})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_2(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 2 is there."""
        for _attempt in range(_RETRIES):
            if self.value_2:
                return self.value_2
        raise TimeoutError(f"value 2 after {timeout} seconds")

    @property
    def value_3(self) -> str:
        """Returns value 3 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 3})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_3(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 3 is there."""
        for _attempt in range(_RETRIES):
            if self.value_3:
                return self.value_3
        raise TimeoutError(f"value 3 after {timeout} seconds")

    @property
    def value_4(self) -> str:
        """Returns value 4 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 4})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_4(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 4 is there."""
        for _attempt in range(_RETRIES):
            if self.value_4:
                return self.value_4
        raise TimeoutError(f"value 4 after {timeout} seconds")

    @property
    def value_5(self) -> str:
        """Returns value 5 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 5})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_5(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 5 is there."""
        for _attempt in range(_RETRIES):
            if self.value_5:
                return self.value_5
        raise TimeoutError(f"value 5 after {timeout} seconds")

    @property
    def value_6(self) -> str:
        """Returns value 6 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 6})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_6(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 6 is there."""
        for _attempt in range(_RETRIES):
            if self.value_6:
                return self.value_6
        raise TimeoutError(f"value 6 after {timeout} seconds")

    @property
    def value_7(self) -> str:
        """Returns value 7 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 7})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_7(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 7 is there."""
        for _attempt in range(_RETRIES):
            if self.value_7:
                return self.value_7
        raise TimeoutError(f"value 7 after {timeout} seconds")

    @property
    def value_8(self) -> str:
        """Returns value 8 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 8})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_8(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 8 is there."""
        for _attempt in range(_RETRIES):
            if self.value_8:
                return self.value_8
        raise TimeoutError(f"value 8 after {timeout} seconds")

    @property
    def value_9(self) -> str:
        """Returns value 9 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 9})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_9(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 9 is there."""
        for _attempt in range(_RETRIES):
            if self.value_9:
                return self.value_9
        raise TimeoutError(f"value 9 after {timeout} seconds")

    @property
    def value_10(self) -> str:
        """Returns value 10 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 10})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_10(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 10 is there."""
        for _attempt in range(_RETRIES):
            if self.value_10:
                return self.value_10
        raise TimeoutError(f"value 10 after {timeout} seconds")

    @property
    def value_11(self) -> str:
        """Returns value 11 of the server, as it was when the client was made."""
        answer = json.dumps({"host": self._host, "index": 11})
        return answer

    # The server limits how often this may be called.
    def wait_for_value_11(self, timeout: int = DEFAULT_TIMEOUT) -> str:
        """Waits until value 11 is there."""
        for _attempt in range(_RETRIES):
            if self.value_11:
                return self.value_11
        raise TimeoutError(f"value 11 after {timeout} seconds")
