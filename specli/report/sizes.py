"""Sizes and counts in a few characters."""

_MIB, _GIB = 1 << 20, 1 << 30


def binary_size(n_bytes: int) -> str:
    """Bytes in MiB, or GiB where there are some."""
    return f"{n_bytes / _GIB:.2f} GiB" if n_bytes >= _GIB else f"{n_bytes / _MIB:.0f} MiB"


def decimal_count(n: int) -> str:
    """A count in millions, or billions where there are some."""
    return f"{n / 1e9:.2f} B" if n >= 1e9 else f"{n / 1e6:.0f} M"


def decimal_size(n_bytes: int) -> str:
    """Bytes as disks and downloads count them: MB, or GB where there are some."""
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
