"""Quantities as people write them: durations, rates, bytes, fractions, CPUs.

Everything is exact: a text is read as a ratio of two integers and rounded once, so formatting and
parsing again gives the same number. A quantity needs its unit; only a field whose name says the
unit (``profile.seconds``) takes a bare number. Parsers raise ``InvalidInput`` for other texts and
values out of range; the message says what to write.

=========  ==========================================  ====================================
quantity   written                                     kept as
=========  ==========================================  ====================================
duration   ``2ms``, ``1.5s``, ``1h30m``, ``7d``        seconds, multiples of 1 ns
rate       ``40000/s``, ``40k/s``, ``3M/min``          per second
bytes      ``1024``, ``512Mi``, ``4Gi``, ``1.5G``      whole bytes
fraction   ``5%``, ``0.05``                            0 to 1
CPU        ``250m``, ``2``, ``0.5``                    thousandths of a CPU
=========  ==========================================  ====================================
"""

import re

from wharfinger.errors import InvalidInput

NANOSECONDS = {
    "d": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
"""Units of a duration, longest first, in nanoseconds."""

SECONDS_OF_PERIOD = {"s": 1, "min": 60, "h": 3_600}
"""What may stand behind the stroke of a rate."""

RATE_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
"""What may stand before the stroke of a rate."""

BYTES_OF_SUFFIX = {
    "Pi": 2**50,
    "P": 10**15,
    "Ti": 2**40,
    "T": 10**12,
    "Gi": 2**30,
    "G": 10**9,
    "Mi": 2**20,
    "M": 10**6,
    "Ki": 2**10,
    "k": 10**3,
}
"""Suffixes of an amount of memory, largest first."""

MAX_DURATION_SECONDS = 36_500 * 86_400
MAX_RATE_PER_SECOND = 10**18
MAX_BYTES = 2**63 - 1
MAX_CPU_MILLICPUS = 10**9
MAX_MONEY = 10**9

_MAX_TEXT = 64  # characters; no sensible quantity is longer, and it bounds every pattern below
_MAX_EXPONENT = 400  # beyond a float's range on either side

_DIGITS = r"[0-9]+(?:\.[0-9]+)?"
_NUMBER = rf"{_DIGITS}(?:[eE][-+]?[0-9]+)?"

# The same patterns stand in the manifest's JSON Schema, so they keep to what every dialect has.
DURATION_PATTERN = "^(?=[0-9])" + "".join(f"(?:({_DIGITS}){u})?" for u in NANOSECONDS) + "$"
RATE_PATTERN = f"^({_NUMBER})({'|'.join(RATE_SCALES)})/({'|'.join(SECONDS_OF_PERIOD)})$"
BYTES_PATTERN = f"^({_NUMBER})({'|'.join(BYTES_OF_SUFFIX)})?$"
FRACTION_PATTERN = f"^({_NUMBER})(%?)$"
CPU_PATTERN = f"^({_DIGITS})(m?)$"

_DURATION = re.compile(DURATION_PATTERN)
_RATE = re.compile(RATE_PATTERN)
_BYTES = re.compile(BYTES_PATTERN)
_FRACTION = re.compile(FRACTION_PATTERN)
_CPU = re.compile(CPU_PATTERN)
_BARE = re.compile(f"^{_NUMBER}$")

_SHOWN = 40  # characters of a value that a message repeats


def quoted(text: str) -> str:
    """A user's text for a message: escaped, on one line, and short."""
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r}… ({len(text)} characters)"


def parse_duration_seconds(text: str, *, allow_zero: bool = False) -> float:
    """Seconds, a multiple of 1 ns up to 100 years; ``0s`` only with ``allow_zero``.

    The units d, h, m, s, ms, us, ns stand at most once each, longest first.

    >>> parse_duration_seconds("1h30m")
    5400.0
    """
    bare = f"has no unit; write e.g. {text}s or {text}ms"
    match = _match(_DURATION, text, "a duration; write e.g. 2ms, 1.5s or 1h30m", bare)
    numerator = 0
    denominator: int = 10**_MAX_TEXT
    for digits, nanoseconds in zip(match.groups(), NANOSECONDS.values(), strict=True):
        if digits is not None:
            top, bottom = _ratio(digits)
            numerator += top * nanoseconds * (denominator // bottom)
    if numerator % denominator:
        raise InvalidInput(f"{quoted(text)} is finer than 1ns; write a multiple of 1ns")
    numerator //= denominator
    if numerator > MAX_DURATION_SECONDS * 10**9:
        raise InvalidInput(f"{quoted(text)} is longer than 100 years; write at most 36500d")
    if not numerator and not allow_zero:
        raise InvalidInput(f"{quoted(text)} is no time at all; write more than zero, e.g. 2ms")
    return numerator / 10**9


def format_duration(seconds: float) -> str:
    """A duration, rounded to 1 ns, in the largest units that keep it exact.

    >>> format_duration(5400.0), format_duration(0.0025), format_duration(61.5)
    ('1h30m', '2.5ms', '1m1.5s')
    """
    top, bottom = seconds.as_integer_ratio()
    rest = (2 * top * 10**9 + bottom) // (2 * bottom)
    parts = []
    for unit, nanoseconds in NANOSECONDS.items():
        if rest < nanoseconds:
            continue
        if nanoseconds <= 10**9:  # from seconds down, decimals read better than 1s500ms
            parts.append(_shifted(rest, len(str(nanoseconds)) - 1) + unit)
            break
        parts.append(f"{rest // nanoseconds}{unit}")
        rest %= nanoseconds
    return "".join(parts) or "0s"


def parse_rate_per_second(text: str) -> float:
    """The number per second, more than zero and up to 1e18.

    >>> parse_rate_per_second("3M/min")
    50000.0
    """
    bare = f"says no period; write e.g. {text}/s"
    match = _match(_RATE, text, "a rate; write e.g. 40000/s, 40k/s or 3M/min", bare)
    top, bottom = _ratio_in_range(match[1], text, "1e18/s")
    top *= RATE_SCALES[match[2]]
    bottom *= SECONDS_OF_PERIOD[match[3]]
    if top > MAX_RATE_PER_SECOND * bottom:
        raise InvalidInput(f"{quoted(text)} is too large; write at most 1e18/s")
    rate = top / bottom
    if not rate:
        raise InvalidInput(f"{quoted(text)} is zero; write more than zero, e.g. 100/s")
    return rate


def format_rate(per_second: float) -> str:
    """A rate as ``parse_rate_per_second`` reads it to the same float.

    >>> format_rate(40000.0), format_rate(1.2e9), format_rate(0.5)
    ('40k/s', '1.2G/s', '0.5/s')
    """
    digits, exponent = _digits(per_second)
    magnitude = len(str(digits)) - 1 + exponent
    if magnitude < -6:
        return f"{per_second!r}/s"
    power = min(max(magnitude // 3, 0), 4)  # of a thousand
    return _shifted(digits, 3 * power - exponent) + list(RATE_SCALES)[power] + "/s"


def parse_bytes(text: str, *, minimum: int = 1) -> int:
    """Whole bytes, from ``minimum`` to 2**63 - 1.

    Suffixes are Ki Mi Gi Ti Pi (powers of 1024) and k M G T P (powers of 1000).

    >>> parse_bytes("1.5G"), parse_bytes("512Mi")
    (1500000000, 536870912)
    """
    match = _match(_BYTES, text, "a size; write e.g. 512Mi, 4Gi or 1.5G")
    top, bottom = _ratio_in_range(match[1], text, "8191Pi")
    size, rest = divmod(top * BYTES_OF_SUFFIX.get(match[2], 1), bottom)
    if rest:
        raise InvalidInput(f"{quoted(text)} is not a whole number of bytes; write e.g. 512Mi")
    if size > MAX_BYTES:
        raise InvalidInput(f"{quoted(text)} is too large; write at most 8191Pi")
    if size < minimum:
        least = format_bytes(minimum)
        raise InvalidInput(f"{quoted(text)} is {size} bytes; write at least {least}, e.g. 512Mi")
    return size


def format_bytes(size_bytes: int) -> str:
    """An amount with the suffix that gives the smallest whole number.

    >>> format_bytes(4 * 2**30), format_bytes(1_500_000_000), format_bytes(1023)
    ('4Gi', '1500M', '1023')
    """
    for suffix, factor in BYTES_OF_SUFFIX.items():
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{suffix}"
    return str(size_bytes)


def parse_fraction(text: str) -> float:
    """A share from 0 to 1, both included.

    >>> parse_fraction("5%")
    0.05
    """
    match = _match(_FRACTION, text, "a fraction; write e.g. 5% or 0.05")
    top, bottom = _ratio_in_range(match[1], text, "100%")
    bottom *= 100 if match[2] else 1
    if top > bottom:
        raise InvalidInput(f"{quoted(text)} is more than the whole; write e.g. 5% or 0.05")
    return top / bottom


def format_fraction(fraction: float) -> str:
    """A percentage that ``parse_fraction`` reads to the same float.

    >>> format_fraction(0.05), format_fraction(0.125)
    ('5%', '12.5%')
    """
    digits, exponent = _digits(fraction)
    if exponent < -30:  # a percentage of that many zeros would be too long to read or parse
        return repr(fraction)
    return _shifted(digits, -exponent - 2) + "%"


def parse_cpu_millicpus(text: str) -> int:
    """Thousandths of a CPU, from 1 to a million CPUs.

    >>> parse_cpu_millicpus("0.5"), parse_cpu_millicpus("250m")
    (500, 250)
    """
    match = _match(_CPU, text, "a number of CPUs; write e.g. 250m, 2 or 0.5")
    top, bottom = _ratio(match[1])
    millicpus, rest = divmod(top if match[2] else top * 1000, bottom)
    if rest:
        raise InvalidInput(f"{quoted(text)} is finer than a thousandth; write a multiple of 1m")
    if not millicpus:
        raise InvalidInput(f"{quoted(text)} is no CPU at all; write at least 1m, e.g. 250m")
    if millicpus > MAX_CPU_MILLICPUS:
        raise InvalidInput(f"{quoted(text)} is too many CPUs; write at most 1000000")
    return millicpus


def format_cpu(cpu_millicpus: int) -> str:
    """Whole CPUs as such, other amounts in thousandths.

    >>> format_cpu(2000), format_cpu(250)
    ('2', '250m')
    """
    if cpu_millicpus % 1000 == 0:
        return str(cpu_millicpus // 1000)
    return f"{cpu_millicpus}m"


def cpu_number(cpu_millicpus: float) -> str:
    """An amount of CPU for people, in CPUs, however small.

    >>> cpu_number(2000), cpu_number(250), cpu_number(1500)
    ('2', '0.25', '1.5')
    """
    return f"{cpu_millicpus / 1000:.3f}".rstrip("0").rstrip(".")


def memory_number(size_bytes: float) -> str:
    """An amount of memory for people, in whole Mi or Gi as a manifest states it.

    >>> memory_number(512 * 2**20), memory_number(3 * 2**30), memory_number(1_700_000_000)
    ('512Mi', '3Gi', '1621Mi')
    """
    mebibytes = int(size_bytes) >> 20
    whole = mebibytes and mebibytes % 1024 == 0
    return f"{mebibytes >> 10}Gi" if whole else f"{mebibytes}Mi"


def _match(pattern: re.Pattern[str], text: str, what: str, bare: str = "") -> re.Match[str]:
    """A match of the whole text; ``bare`` is the message for a number without a unit."""
    short = len(text) <= _MAX_TEXT
    if short and (match := pattern.fullmatch(text)):
        return match
    if short and bare and _BARE.fullmatch(text):
        raise InvalidInput(f"{quoted(text)} {bare}")
    raise InvalidInput(f"{quoted(text)} is not {what}")


def _ratio_in_range(number: str, text: str, most: str) -> tuple[int, int]:
    """Like ``_ratio``, for numbers that may have an exponent."""
    mantissa, _, exponent_text = number.lower().partition("e")
    exponent = int(exponent_text or "0")
    if abs(exponent) > _MAX_EXPONENT:
        raise InvalidInput(f"{quoted(text)} is out of range; write more than 0, at most {most}")
    top, bottom = _ratio(mantissa)
    return (top * 10**exponent, bottom) if exponent >= 0 else (top, bottom * 10**-exponent)


def _ratio(digits: str) -> tuple[int, int]:
    """A decimal without exponent as numerator and denominator."""
    whole, _, decimals = digits.partition(".")
    return int(whole + decimals), 10 ** len(decimals)


def _digits(number: float) -> tuple[int, int]:
    """The shortest decimal that rounds to ``number``: significant digits, power of ten."""
    mantissa, _, exponent = repr(float(number)).partition("e")
    top, bottom = _ratio(mantissa)
    return top, int(exponent or "0") - (len(str(bottom)) - 1)


def _shifted(digits: int, decimals: int) -> str:
    """``digits`` divided by ten to the ``decimals``, without trailing zeros."""
    if decimals <= 0:
        return str(digits * 10**-decimals)
    text = str(digits).rjust(decimals + 1, "0")
    return f"{text[:-decimals]}.{text[-decimals:]}".rstrip("0").rstrip(".")
