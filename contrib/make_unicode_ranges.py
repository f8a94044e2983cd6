#!/usr/bin/env python3
"""Writes src/token/unicode_ranges.h: the classes of characters that the tokenizers' patterns tell apart.

    python contrib/make_unicode_ranges.py | clang-format >src/token/unicode_ranges.h

The classes are those of the regular expressions of the installed tiktoken, because ids must equal its ids:
each code point is matched against \\p{Lu}, ...  The version of Unicode is found by characters that were
added by each version."""
import sys

import tiktoken

# class: the pattern; the names are those of enum ct__class in src/token/pieces.h
CLASSES = [("CT__UPPER", r"[\p{Lu}\p{Lt}]"), ("CT__LOWER", r"\p{Ll}"), ("CT__LETTER", r"[\p{Lm}\p{Lo}]"),
           ("CT__MARK", r"\p{M}"), ("CT__NUMBER", r"\p{N}"), ("CT__SPACE", r"\s")]
# a letter that is new in a version
NEW = [("14.0", 0x10570), ("15.0", 0x11240), ("15.1", 0x2EBF0), ("16.0", 0x10D4A), ("17.0", 0x10940)]


def matched(pattern):
    """The code points that a regular expression matches: others give no token at all."""
    encoding = tiktoken.Encoding("any", pat_str=pattern, mergeable_ranks={bytes([b]): b for b in range(256)},
                                 special_tokens={})
    return [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and encoding.encode_ordinary(chr(c))]


def main():
    of = [0] * 0x110001
    for number, (_, pattern) in enumerate(CLASSES, 1):
        for c in matched(pattern):
            assert of[c] == 0, f"U+{c:04X} is in two classes"
            of[c] = number
    version = [v for v, c in NEW if of[c]][-1]
    ranges = [c << 3 | of[c] for c in range(0x80, 0x110001) if c == 0x80 or of[c] != of[c - 1]]
    print(f"/* Unicode {version}: classes of code points from U+0080 on.  Made by\n"
          f" * contrib/make_unicode_ranges.py with tiktoken {tiktoken.__version__}.  Each number is first << 3 | class\n"
          " * (enum ct__class); a range ends where the next one begins. */\n#include <stdint.h>\n")
    print("static const uint32_t unicode_range[] = {")
    print(",".join(map(str, ranges)))
    print("};")


if __name__ == "__main__":
    sys.exit(main())
