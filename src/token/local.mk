libctrain_a_SOURCES += \
  %D%/blob.c \
  %D%/bpe.c \
  %D%/bytes.c \
  %D%/ct_tokenizer.h \
  %D%/open.c \
  %D%/pairs.c \
  %D%/pieces.c \
  %D%/pieces.h \
  %D%/token.h \
  %D%/tokenizer.c \
  %D%/tokens.c \
  %D%/unicode_ranges.h \
  %D%/vocab.c
