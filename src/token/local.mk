libctrain_a_SOURCES += \
  %D%/blob.c \
  %D%/bpe.c \
  %D%/bytes.c \
  %D%/ct_tokenizer.h \
  %D%/list.c \
  %D%/open.c \
  %D%/pairs.c \
  %D%/pieces.c \
  %D%/pieces.h \
  %D%/read_json.c \
  %D%/read_merges.c \
  %D%/read_merges.h \
  %D%/read_tiktoken.c \
  %D%/token.h \
  %D%/tokenizer.c \
  %D%/tokens.c \
  %D%/unicode_ranges.h \
  %D%/vocab.c
# Writes unicode_ranges.h.
EXTRA_DIST += contrib/make_unicode_ranges.py
