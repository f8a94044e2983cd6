/** \file ct_opt.h  Option tables: one table gives parsing, defaults, ranges, --help, dump and
 * hash.  Layer 0.
 *
 * A module declares a struct of plain values and a table of rows with the offset of each key in it:
 *
 *     typedef struct { double lr; int nesterov; } sgd_t;
 *     static const ct_opt_t rows[] = {
 *       CT_OPT_DOUBLE(sgd_t, lr, "0.1", 0, 1e6, "learning rate"),
 *       CT_OPT_BOOL(sgd_t, nesterov, "false", "Nesterov momentum"),
 *       CT_OPT_END};
 *
 * Zero the struct first.  ct_opt_defaults() sets the defaults, ct_opt_read() reads values from a
 * map node, ct_opt_clear() frees owned values. */
#ifndef CT_OPT_H
#define CT_OPT_H
#include "conf/ct_yaml.h"

typedef enum {
  CT_OPT_T_END,
  CT_OPT_T_INT,     /**< int64_t; the words of `choices`, if any, become the values -1, -2 … */
  CT_OPT_T_DOUBLE,  /**< double; the words of `choices`, if any, become the values -1, -2 … */
  CT_OPT_T_BOOL,    /**< int, 0 or 1: true/false/yes/no/on/off */
  CT_OPT_T_TEXT,    /**< char *, owned, never NULL after defaults */
  CT_OPT_T_NAME,    /**< TEXT that is valid as the name of a file: no '/', no control characters */
  CT_OPT_T_CHOICE,  /**< int, index into the words of `choices`; if true and false are among them,
                         all words of BOOL are accepted */
  CT_OPT_T_TEXTS,   /**< ct_opt_texts_t: a scalar or a list of scalars */
  CT_OPT_T_DOUBLES, /**< ct_opt_doubles_t: a scalar or a list */
  CT_OPT_T_PATH,    /**< char *, owned; variables are expanded (ct_path_expand()), except in the
                         words of `choices`, which are not paths */
  CT_OPT_T_PATHS,   /**< ct_opt_texts_t: a scalar or a list of scalars, each expanded as a PATH */
  CT_OPT_T_FILES,   /**< ct_opt_files_t: a map of names (letters, digits, '_' and '-') to PATHS */
  CT_OPT_T_SINGLE,  /**< int64_t[1]: a scalar, or a list of one */
  CT_OPT_T_PAIR,    /**< int64_t[2]: a scalar for both, or a list of two */
  CT_OPT_T_TRIPLE,  /**< int64_t[3]: a scalar for all, or a list of three */
  CT_OPT_T_NODE     /**< ct_yaml_t *, owned copy of any value, or NULL */
} ct_opt_type_t;

typedef struct ct_opt_texts {
  char **v; /**< owned strings */
  int n;
} ct_opt_texts_t;
enum { CT_OPT_FILES_NAME = 24 }; /**< maximum bytes of a name, its NUL included */
typedef struct ct_opt_files {
  char **name; /**< owned strings */
  ct_opt_texts_t *paths;
  int n;
} ct_opt_files_t;
typedef struct ct_opt_doubles {
  double *v; /**< owned */
  int n;
} ct_opt_doubles_t;

typedef struct ct_opt {
  const char *key;
  ct_opt_type_t type;
  size_t offset;
  const char *def;     /**< default as YAML text; NULL: the key is required */
  double min, max;     /**< range of a number, both ends included */
  const char *choices; /**< CHOICE: its words, "auto|cpu|ref"; path types, and INT and DOUBLE with
                            min >= 0: words that are allowed instead of a path or number; or NULL
                          */
  const char *help;    /**< one line with the unit, without a capital at the start or a full stop */
} ct_opt_t;

#define CT_OPT_INT(T, f, def, lo, hi, help)                \
  {                                                        \
#    f, CT_OPT_T_INT, offsetof(T, f), def, lo, hi, 0, help \
  }
#define CT_OPT_INT_OR(T, f, def, lo, hi, words, help)          \
  {                                                            \
#    f, CT_OPT_T_INT, offsetof(T, f), def, lo, hi, words, help \
  }
#define CT_OPT_DOUBLE(T, f, def, lo, hi, help)                \
  {                                                           \
#    f, CT_OPT_T_DOUBLE, offsetof(T, f), def, lo, hi, 0, help \
  }
#define CT_OPT_DOUBLE_OR(T, f, def, lo, hi, words, help)          \
  {                                                               \
#    f, CT_OPT_T_DOUBLE, offsetof(T, f), def, lo, hi, words, help \
  }
#define CT_OPT_BOOL(T, f, def, help)                      \
  {                                                       \
#    f, CT_OPT_T_BOOL, offsetof(T, f), def, 0, 0, 0, help \
  }
#define CT_OPT_TEXT(T, f, def, help)                      \
  {                                                       \
#    f, CT_OPT_T_TEXT, offsetof(T, f), def, 0, 0, 0, help \
  }
#define CT_OPT_NAME(T, f, def, help)                      \
  {                                                       \
#    f, CT_OPT_T_NAME, offsetof(T, f), def, 0, 0, 0, help \
  }
#define CT_OPT_CHOICE(T, f, def, choices, help)                   \
  {                                                               \
#    f, CT_OPT_T_CHOICE, offsetof(T, f), def, 0, 0, choices, help \
  }
#define CT_OPT_TEXTS(T, f, def, help)                      \
  {                                                        \
#    f, CT_OPT_T_TEXTS, offsetof(T, f), def, 0, 0, 0, help \
  }
#define CT_OPT_PATH(T, f, def, words, help)                   \
  {                                                           \
#    f, CT_OPT_T_PATH, offsetof(T, f), def, 0, 0, words, help \
  }
#define CT_OPT_PATHS(T, f, def, words, help)                   \
  {                                                            \
#    f, CT_OPT_T_PATHS, offsetof(T, f), def, 0, 0, words, help \
  }
#define CT_OPT_FILES(T, f, words, help)                       \
  {                                                           \
#    f, CT_OPT_T_FILES, offsetof(T, f), "", 0, 0, words, help \
  }
#define CT_OPT_DOUBLES(T, f, def, help)                      \
  {                                                          \
#    f, CT_OPT_T_DOUBLES, offsetof(T, f), def, 0, 0, 0, help \
  }
#define CT_OPT_SINGLE(T, f, def, lo, hi, help)                \
  {                                                           \
#    f, CT_OPT_T_SINGLE, offsetof(T, f), def, lo, hi, 0, help \
  }
#define CT_OPT_PAIR(T, f, def, lo, hi, help)                \
  {                                                         \
#    f, CT_OPT_T_PAIR, offsetof(T, f), def, lo, hi, 0, help \
  }
#define CT_OPT_TRIPLE(T, f, def, lo, hi, help)                \
  {                                                           \
#    f, CT_OPT_T_TRIPLE, offsetof(T, f), def, lo, hi, 0, help \
  }
#define CT_OPT_NODE(T, f, help)                          \
  {                                                      \
#    f, CT_OPT_T_NODE, offsetof(T, f), "", 0, 0, 0, help \
  }
#define CT_OPT_END                    \
  {                                   \
    0, CT_OPT_T_END, 0, 0, 0, 0, 0, 0 \
  }

/** Fills the struct from the defaults; required keys get zero, NULL, or "" for a text. */
int ct_opt_defaults(const ct_opt_t *rows, void *values);
/** Local.  Reads the keys of \a map.  For messages, \a where names the file and \a section is the
 * prefix of keys ("optim").  CT_ERR_USAGE: an unknown key, a wrong type, a value out of range, a
 * missing required key.  Message: `file:line: optim.lrr: unknown key; did you mean 'lr'?`.  Keys
 * listed in \a also (NULL-terminated, may be NULL) are skipped: the caller reads them. */
int ct_opt_read(const ct_opt_t *rows, void *values, const ct_yaml_t *map, const char *where,
                const char *section, const char *const *also);
/** Returns the values as a new map with the key \a key; ct_opt_read() of the map gives the same
 * values.  NULL: out of memory. */
ct_yaml_t *ct_opt_dump(const ct_opt_t *rows, const void *values, const char *key);
/** Appends a help text: key, type or choices, default and help of each row. */
int ct_opt_help(const ct_opt_t *rows, const char *section, ct_str_t *out);
/** Frees owned values and zeroes the struct. */
void ct_opt_clear(const ct_opt_t *rows, void *values);
/** Returns the word of a CHOICE row for a value ("cpu"), in a static buffer of this thread. */
const char *ct_opt_word(const ct_opt_t *rows, const char *key, int value);

/** Returns the key for a name that other programs or earlier versions use ("lr" for
 * "learning_rate"; with its section if that is another one: "train.amp: tf32"), or the word
 * itself. */
const char *ct_opt_name(const char *word);
/** Returns the key among keys[n] that a misspelt word most likely means, by ct_opt_name() or
 * ct_text_nearest(); NULL: none is similar. */
const char *ct_opt_nearest(const char *word, const char *const *keys, int n);

#endif
